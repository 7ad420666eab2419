"""What the real agent says of each board, from a fake system root, and the profile that it gets."""

import re
from pathlib import Path
from typing import Any

import pytest

from edgeopt.targets.local import LocalTarget
from edgeopt.targets.profiles import disagreement, list_profiles, match_profile
from tests.boards.boards import BOARDS, write
from tests.boards.identity import KINDS, known, near

# What a probe must say: JetPack, module, SoC, power mode by name, and (name, cores) of clusters.
JETSON = {
    "jetson-nano": ("4.6", "p3448-0000", "tegra210", "MAXN", [("Cortex-A57", 4)]),
    "jetson-xavier-nx": ("5", "p3668-0000", "tegra194", "MODE_20W_6CORE", [("Carmel", 6)]),
    "jetson-orin-nano": ("6.2", "p3767-0005", "tegra234", "25W", [("Cortex-A78AE", 6)]),
    "jetson-orin-nx": ("6.2", "p3767-0000", "tegra234", None, [("Cortex-A78AE", 8)]),
    "jetson-agx-orin": ("6.2", "p3701-0005", "tegra234", "MODE_50W", [("Cortex-A78AE", 12)]),
    "jetson-thor": ("7.0", "p3834-0008", "tegra264", "120W", [("Neoverse-V3AE", 14)]),
}
OTHERS = {
    "raspberry-pi-4": ("bcm2711", [("Cortex-A72", 4)]),
    "raspberry-pi-5": ("bcm2712", [("Cortex-A76", 4)]),
    "rock-5b": ("rk3588", [("Cortex-A76", 4), ("Cortex-A55", 4)]),
    "android-arm64": ("sm8650", [("Cortex-X4", 1), ("Cortex-A720", 5), ("Cortex-A520", 2)]),
    "generic-arm64": ("some-board", [("Cortex-A53", 4)]),
    "x86-n100": (None, [(None, 4)]),
    "x86-avx2": (None, [(None, 4)]),
    "x86-vnni": (None, [(None, 4)]),
}


def probe(root: Path) -> Any:
    """What the agent says when it believes in another system root."""
    with LocalTarget(environment={"EDGEOPT_SYSROOT": str(root)}) as target:
        return target.request("probe", deadline_s=300.0)


def clusters(facts: Any) -> list[tuple[str | None, int]]:
    return [(each["name"], len(each["cores"])) for each in facts["clusters"]]


def test_every_kind_has_its_board() -> None:
    """Nothing of this file is forgotten when a profile is added."""
    assert set(KINDS) == set(list_profiles()) == set(JETSON) | set(OTHERS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_board_says_what_it_is(kind: str, tmp_path: Path) -> None:
    """Board, release, features, clusters, power mode, sensors; and it gets its own profile."""
    facts = probe(known(kind, tmp_path))
    profile = match_profile(facts)
    assert profile.name == kind
    assert disagreement(profile, facts) == ""
    assert facts["architecture"] == profile.architecture
    assert set(facts["features"]) >= set(profile.features)
    assert facts["machine_kind"] == "physical"
    if kind in JETSON:
        jetpack, module, soc, mode, cores = JETSON[kind]
        assert (facts["jetpack"], facts["module"], facts["soc"]) == (jetpack, module, soc)
        assert facts["power_mode"] in ([mode] if mode else [n for _, n in BOARDS[kind].modes])
        assert facts["gpu_architecture"] == profile.accelerators[0].architecture
        assert facts["devfreq"]
    else:
        soc, cores = OTHERS[kind]
        assert (facts["jetpack"], facts["module"], facts["soc"]) == (None, None, soc)
    assert clusters(facts) == cores
    if profile.clusters:
        assert [(each.name, each.cores) for each in profile.clusters][: len(cores)] == [
            (name or profile.clusters[0].name, count) for name, count in cores
        ]
        assert max(each.max_mhz for each in profile.clusters) * 1e6 == pytest.approx(
            facts["clock_max_hz"], rel=0.03
        )
    if kind in BOARDS:
        assert facts["memory_bytes"] == BOARDS[kind].memory_kb * 1024
        wanted = {each.name for each in profile.sensors}
        assert wanted & {each["name"].partition(" ")[0] for each in facts["sensors"]} or not wanted


def test_android_is_told_without_a_model(tmp_path: Path) -> None:
    """build.prop says the release where there is no os-release."""
    facts = probe(known("android-arm64", tmp_path))
    assert facts["os"] == "Android 14"
    assert facts["os_release"]["ID"] == "android"


@pytest.mark.parametrize(
    ("name", "profile", "note"),
    [
        ("orin-unknown-module", "jetson-orin-nano", "most careful one with tegra234"),
        ("orin-container", "jetson-orin-nano", "most careful one with 0x41:0xd42"),
        ("orin-nano-4gb", "jetson-orin-nano", "3.7 GiB of memory"),
        ("future-release", "jetson-orin-nano", ""),
        ("raspberry-pi-3", "generic-arm64", ""),
        ("compute-module-4", "raspberry-pi-4", "most careful one with bcm2711"),
        ("other-arm-server", "generic-arm64", ""),
    ],
)
def test_near_misses(name: str, profile: str, note: str, tmp_path: Path) -> None:
    """A board that no profile is made for gets a careful one, which says so."""
    facts = probe(near(name, tmp_path))
    found = match_profile(facts)
    assert found.name == profile
    assert note in (found.traps[0] if found.traps else "")
    if name == "future-release":
        assert (facts["l4t"], facts["jetpack"]) == ("36.9.1", "6")
    if name == "orin-container":
        assert facts["machine_kind"] == "container"


def test_a_processor_without_any_profile(tmp_path: Path) -> None:
    """An old x86 gets no integer types, and a note."""
    found = match_profile(probe(known("x86-sse", tmp_path)))
    assert (found.name, found.quantization) == ("unknown-x86_64", None)
    assert "No hardware profile" in found.traps[0]


def test_a_virtual_machine_says_so(tmp_path: Path) -> None:
    """The hypervisor's flag is enough."""
    assert probe(known("x86-vnni-vm", tmp_path))["machine_kind"] == "vm"


def test_fingerprint_follows_what_changes_a_measurement(tmp_path: Path) -> None:
    """Power mode, governor, clocks and memory change it; a reboot and a busy disk do not."""
    root = known("jetson-orin-nano", tmp_path)
    first = probe(root)
    write(root, "/proc/sys/kernel/random/boot_id", "11111111-ab59-5c2e-b6c7-4f1f2f0a5d11\n")
    write(root, "/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "408000\n")
    second = probe(root)
    assert first["boot_id"] != second["boot_id"]
    assert first["fingerprint"] == second["fingerprint"]
    seen = {first["fingerprint"]}
    changes = {
        "/var/lib/nvpmodel/status": "pmode:0002 fmode:fanNull\n",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
        "/sys/devices/system/cpu/cpufreq/policy4/cpuinfo_max_freq": "1510400\n",
        "/proc/meminfo": "MemTotal: 4000000 kB\nSwapTotal: 0 kB\n",
        "/sys/devices/system/cpu/online": "0-3\n",
        "/sys/fs/cgroup/memory.max": "2147483648\n",
        "/sys/class/devfreq/17000000.gpu/max_freq": "624750000\n",
    }
    for path, text in changes.items():
        write(root, path, text)
        found = probe(root)
        assert found["fingerprint"] not in seen, path
        seen.add(found["fingerprint"])
    assert (found["power_mode"], found["memory_limit_bytes"]) == ("MAXN_SUPER", 2**31)


@pytest.mark.parametrize(
    ("files", "quota", "limit"),
    [
        ({"/sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5, None),
        (
            {"/sys/fs/cgroup/cpu.max": "max 100000\n", "/sys/fs/cgroup/memory.max": "max\n"},
            None,
            None,
        ),
        (
            {
                "/proc/self/cgroup": "0::/user.slice/job.scope\n",
                "/sys/fs/cgroup/user.slice/job.scope/cpu.max": "50000 100000\n",
                "/sys/fs/cgroup/user.slice/cpu.max": "200000 100000\n",
                "/sys/fs/cgroup/user.slice/memory.max": "1073741824\n",
            },
            0.5,
            2**30,
        ),
        (
            {
                "/proc/self/cgroup": "4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us": "25000\n",
                "/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us": "100000\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "536870912\n",
            },
            0.25,
            2**29,
        ),
    ],
)
def test_limits_of_control_groups(
    files: dict[str, str], quota: float | None, limit: int | None, tmp_path: Path
) -> None:
    """Both versions, in a group of its own and in the groups above; `max` is no limit."""
    root = known("generic-arm64", tmp_path)
    for path, text in files.items():
        write(root, path, text)
    facts = probe(root)
    assert (facts["cpu_quota"], facts["memory_limit_bytes"]) == (quota, limit)


def test_real_machine_has_every_key() -> None:
    """The same keys come from this machine, and its fingerprint is the same twice."""
    with LocalTarget() as target:
        first = target.request("probe", deadline_s=300.0)
        second = target.request("probe", deadline_s=300.0)
    assert first["fingerprint"] == second["fingerprint"]
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", str(first["glibc"])) or first["glibc"] is None
    assert first["disk_free_bytes"] > 0
    assert match_profile(first).architecture == first["architecture"]
