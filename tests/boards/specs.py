"""What the boards' files say: names, releases, processors, power rails. Public facts, no hardware.

Texts follow the formats of the boards' kernels; figures are typical, not those of one board.
"""

from dataclasses import dataclass

_NEON = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_A76 = _NEON + " atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
_V3 = _A76 + " sve sve2 svei8mm svebf16 i8mm bf16"
_N100 = "fpu tsc msr cx8 sse sse2 ssse3 sse4_1 sse4_2 fma avx f16c avx2 bmi2 avx_vnni rdpid"


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Equal cores: how many, how fast, which part."""

    cores: int
    max_khz: int
    part: str
    capacity: int = 1024
    implementer: str = "0x41"


@dataclass(frozen=True, kw_only=True)
class Rail:
    """One power reading: share of the board's total, at a voltage, seen through a shunt."""

    label: str
    share: float
    volts: float
    shunt_uohm: int = 5000
    address: str = "0040"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One board."""

    model: str
    compatible: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...]
    features: str = _NEON
    memory_kb: int
    os_name: str
    tegra: str = ""
    sensor: str = ""
    rails: tuple[Rail, ...] = ()
    vin: bool = False
    modes: tuple[tuple[int, str], ...] = ()
    mode: int = 0
    gpu: str = ""
    vcgencmd: bool = False
    cpu_name: str = ""
    zones: tuple[tuple[str, int], ...] = (("cpu-thermal", 45000),)


def _r(release: int, revision: str, board: str = "generic") -> str:
    return (
        f"# R{release} (release), REVISION: {revision}, GCID: 38968081, BOARD: {board}, "
        "EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025\n"
    )


_UBUNTU = "Ubuntu {0} LTS"
_JETSON_ZONES = (("CPU-therm", 46500), ("GPU-therm", 45000), ("AO-therm", 47000))
_ORIN_ZONES = (("cpu-thermal", 48500), ("gpu-thermal", 47200), ("cv0-thermal", -256000))
_MODULE = (
    Rail(label="VDD_IN", share=1.0, volts=5.0),
    Rail(label="VDD_CPU_GPU_CV", share=0.45, volts=5.0),
    Rail(label="VDD_SOC", share=0.25, volts=5.0),
)

BOARDS: dict[str, Spec] = {
    "jetson-nano": Spec(
        model="NVIDIA Jetson Nano Developer Kit",
        compatible=(
            "nvidia,p3449-0000-b00+p3448-0000-b00",
            "nvidia,jetson-nano",
            "nvidia,tegra210",
        ),
        clusters=(Cluster(cores=4, max_khz=1479000, part="0xd07"),),
        memory_kb=4059712,
        os_name=_UBUNTU.format("18.04.6"),
        tegra=_r(32, "7.4", "t210ref"),
        sensor="ina3221_iio",
        rails=(
            Rail(label="POM_5V_IN", share=1.0, volts=5.0),
            Rail(label="POM_5V_GPU", share=0.3, volts=5.0),
            Rail(label="POM_5V_CPU", share=0.4, volts=5.0),
        ),
        modes=((0, "MAXN"), (1, "5W")),
        gpu="57000000.gpu",
        zones=_JETSON_ZONES,
    ),
    "jetson-xavier-nx": Spec(
        model="NVIDIA Jetson Xavier NX Developer Kit",
        compatible=("nvidia,p3509-0000+p3668-0000", "nvidia,jetson-xavier-nx", "nvidia,tegra194"),
        clusters=(Cluster(cores=6, max_khz=1907200, part="0x004", implementer="0x4e"),),
        features=_NEON + " atomics fphp asimdhp",
        memory_kb=7858000,
        os_name=_UBUNTU.format("20.04.6"),
        tegra=_r(35, "4.1", "t186ref"),
        sensor="ina3221_hwmon",
        rails=_MODULE,
        modes=((0, "MODE_15W_2CORE"), (2, "MODE_15W_6CORE"), (8, "MODE_20W_6CORE")),
        mode=8,
        gpu="17000000.gv11b",
        zones=_JETSON_ZONES,
    ),
    "jetson-agx-xavier": Spec(
        model="NVIDIA Jetson AGX Xavier Developer Kit",
        compatible=("nvidia,p2972-0000", "nvidia,tegra194"),
        clusters=(Cluster(cores=8, max_khz=2265600, part="0x004", implementer="0x4e"),),
        features=_NEON + " atomics fphp asimdhp",
        memory_kb=32000000,
        os_name=_UBUNTU.format("20.04.6"),
        tegra=_r(35, "4.1", "t186ref"),
        sensor="ina3221_hwmon",
        rails=(
            Rail(label="GPU", share=0.2, volts=12.0),
            Rail(label="CPU", share=0.3, volts=12.0),
            Rail(label="SOC", share=0.2, volts=12.0),
            Rail(label="CV", share=0.05, volts=12.0, address="0041"),
            Rail(label="VDDRQ", share=0.1, volts=12.0, address="0041"),
            Rail(label="SYS5V", share=0.15, volts=5.0, address="0041"),
        ),
        modes=((0, "MAXN"), (1, "MODE_10W"), (3, "MODE_30W_ALL")),
        gpu="17000000.gv11b",
        zones=_JETSON_ZONES,
    ),
    "jetson-orin-nano": Spec(
        model="NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super",
        compatible=("nvidia,p3768-0000+p3767-0005-super", "nvidia,p3767-0005", "nvidia,tegra234"),
        clusters=(
            Cluster(cores=4, max_khz=1728000, part="0xd42"),
            Cluster(cores=2, max_khz=1728000, part="0xd42"),
        ),
        features=_A76,
        memory_kb=7802000,
        os_name=_UBUNTU.format("22.04.5"),
        tegra=_r(36, "4.3"),
        sensor="ina3221_hwmon",
        rails=_MODULE,
        modes=((0, "15W"), (1, "25W"), (2, "MAXN_SUPER"), (3, "7W")),
        mode=1,
        gpu="17000000.gpu",
        zones=_ORIN_ZONES,
    ),
    "jetson-orin-nx": Spec(
        model="NVIDIA Jetson Orin NX Engineering Reference Developer Kit",
        compatible=("nvidia,p3768-0000+p3767-0000", "nvidia,p3767-0000", "nvidia,tegra234"),
        clusters=(
            Cluster(cores=4, max_khz=1984000, part="0xd42"),
            Cluster(cores=4, max_khz=1984000, part="0xd42"),
        ),
        features=_A76,
        memory_kb=15900000,
        os_name=_UBUNTU.format("22.04.5"),
        tegra=_r(36, "4.3"),
        sensor="ina3221_hwmon",
        rails=_MODULE,
        modes=((0, "MAXN"), (1, "10W"), (2, "15W"), (3, "25W")),
        mode=3,
        gpu="17000000.gpu",
        zones=_ORIN_ZONES,
    ),
    "jetson-agx-orin": Spec(
        model="NVIDIA Jetson AGX Orin Developer Kit",
        compatible=("nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234"),
        clusters=tuple(Cluster(cores=4, max_khz=2201600, part="0xd42") for _ in range(3)),
        features=_A76,
        memory_kb=64300000,
        os_name=_UBUNTU.format("22.04.5"),
        tegra=_r(36, "4.3"),
        sensor="ina3221_hwmon",
        rails=(
            Rail(label="VDD_GPU_SOC", share=0.45, volts=20.0, shunt_uohm=2000),
            Rail(label="VDD_CPU_CV", share=0.3, volts=20.0, shunt_uohm=2000),
            Rail(label="VIN_SYS_5V0", share=0.25, volts=5.0, shunt_uohm=2000),
            Rail(label="NC", share=0.0, volts=0.0, address="0041"),
            Rail(label="VDDQ_VDD2_1V8AO", share=0.1, volts=5.0, shunt_uohm=2000, address="0041"),
        ),
        modes=((0, "MAXN"), (1, "MODE_15W"), (2, "MODE_30W"), (3, "MODE_50W")),
        mode=3,
        gpu="17000000.gpu",
        zones=_ORIN_ZONES,
    ),
    "jetson-thor": Spec(
        model="NVIDIA Jetson AGX Thor Developer Kit",
        compatible=("nvidia,p4071-0000+p3834-0008", "nvidia,p3834-0008", "nvidia,tegra264"),
        clusters=(Cluster(cores=14, max_khz=2601000, part="0xd83"),),
        features=_V3,
        memory_kb=128800000,
        os_name=_UBUNTU.format("24.04.3"),
        tegra=_r(38, "2.0"),
        sensor="ina3221_hwmon",
        rails=(
            Rail(label="VDD_GPU", share=0.3, volts=20.0, shunt_uohm=2000),
            Rail(label="VDD_CPU_SOC_MSS", share=0.25, volts=20.0, shunt_uohm=2000),
            Rail(label="VIN_SYS_5V0", share=0.2, volts=5.0, shunt_uohm=2000),
        ),
        vin=True,
        modes=((0, "MAXN"), (1, "120W")),
        mode=1,
        gpu="gpu-gpc-0",
        zones=_ORIN_ZONES,
    ),
    "raspberry-pi-4": Spec(
        model="Raspberry Pi 4 Model B Rev 1.4",
        compatible=("raspberrypi,4-model-b", "brcm,bcm2711"),
        clusters=(Cluster(cores=4, max_khz=1800000, part="0xd08"),),
        features="fp asimd evtstrm crc32 cpuid",
        memory_kb=3884000,
        os_name="Debian GNU/Linux 12 (bookworm)",
        vcgencmd=True,
    ),
    "raspberry-pi-5": Spec(
        model="Raspberry Pi 5 Model B Rev 1.0",
        compatible=("raspberrypi,5-model-b", "brcm,bcm2712"),
        clusters=(Cluster(cores=4, max_khz=2400000, part="0xd0b"),),
        features=_A76,
        memory_kb=8255000,
        os_name="Debian GNU/Linux 12 (bookworm)",
        sensor="pmic_read_adc",
        vcgencmd=True,
    ),
    "rock-5b": Spec(
        model="Radxa ROCK 5B",
        compatible=("radxa,rock-5b", "rockchip,rk3588"),
        clusters=(
            Cluster(cores=4, max_khz=1800000, part="0xd05", capacity=530),
            Cluster(cores=4, max_khz=2352000, part="0xd0b"),
        ),
        features=_A76,
        memory_kb=16200000,
        os_name="Debian GNU/Linux 12 (bookworm)",
        gpu="fb000000.gpu",
        zones=(("package-thermal", 43000), ("bigcore0-thermal", 44000)),
    ),
    "x86-n100": Spec(
        model="MINI S12 Pro",
        clusters=(Cluster(cores=4, max_khz=3400000, part=""),),
        features=_N100,
        memory_kb=16100000,
        os_name=_UBUNTU.format("24.04.3"),
        sensor="rapl",
        cpu_name="Intel(R) N100",
        zones=(("x86_pkg_temp", 41000),),
    ),
    "android-arm64": Spec(
        model="",
        compatible=("qcom,pineapple", "qcom,sm8650"),
        clusters=(
            Cluster(cores=2, max_khz=2265600, part="0xd80", capacity=330),
            Cluster(cores=5, max_khz=3148800, part="0xd81", capacity=870),
            Cluster(cores=1, max_khz=3302400, part="0xd82"),
        ),
        features=_A76 + " i8mm bf16",
        memory_kb=11600000,
        os_name="",
        sensor="power_supply",
    ),
    "generic-arm64": Spec(
        model="Some Board",
        compatible=("somebody,some-board",),
        clusters=(Cluster(cores=4, max_khz=1500000, part="0xd03"),),
        memory_kb=2000000,
        os_name="Debian GNU/Linux 12 (bookworm)",
    ),
}
