"""`DeviceProfile`: what a kind of device is, never how to reach it. From one TOML file.

The profile decides which actions are offered; applying an action never looks at it, so that a
recipe means the same everywhere. Nothing in it is ever shown as a measurement of edgeopt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Scope = Literal[
    "board", "module", "soc-rails (partial)", "package", "pmic", "battery", "gpu", "wall"
]
Basis = Literal["vendor", "derived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationTypes:
    """What integer types a provider computes fast in.

    Args:
        activation: `uint8` or `int8`.
        weight: `int8` or `uint8`.
        per_channel: Whether weights may have one scale a channel.
        reduce_range: 7-bit weights, where 16-bit accumulation saturates.
        symmetric: Zero points must be 0 (TensorRT).
    """

    activation: str = "uint8"
    weight: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False
    symmetric: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """How a device of the kind is recognised; empty rules recognise nothing.

    Args:
        module_ids: Of the compute module, `p3767-0005`.
        compatible: Patterns of entries of the device tree's `compatible` (`*` and `?`).
        models: Patterns of the board's model text, of the device tree or of DMI.
        cpu_models: Patterns of the processor's model name.
        socs: Names of the system on chip, `tegra234`: enough for the kind only where no profile
            knows the board.
        cpu_parts: Implementer and part of the cores, `0x41:0xd42`: as `socs`, where the device
            tree cannot be read (in a container).
        systems: Operating systems by `ID` of os-release, or `android`.
    """

    module_ids: tuple[str, ...] = ()
    compatible: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    cpu_models: tuple[str, ...] = ()
    socs: tuple[str, ...] = ()
    cpu_parts: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Cores of one kind.

    Args:
        name: Of the core, `Cortex-A76`.
        cores: How many.
        max_mhz: Highest clock in MHz; 0 where kinds differ.
        part: Implementer and part, `0x41:0xd0b`; empty on x86.
        isa: Features beyond the architecture's base, in the agent's words.
    """

    name: str
    cores: int
    max_mhz: int = 0
    part: str = ""
    isa: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBandwidth:
    """How fast memory is, by others; 0 is not known.

    Args:
        peak_gb_per_s: GB/s of the interface.
        peak_basis: `vendor` or `derived` (width times clock).
        memcpy_mb_per_s: MB/s, one thread, tinymembench.
        memset_mb_per_s: MB/s, one thread, tinymembench.
    """

    peak_gb_per_s: float = 0.0
    peak_basis: Basis = "vendor"
    memcpy_mb_per_s: int = 0
    memset_mb_per_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A unit that a provider computes on; peaks are of dense arithmetic, 0 is not known.

    Args:
        name: `GPU`, `DLA`, `CPU`.
        provider: Execution provider that uses it; empty where none of a stock runtime does.
        architecture: `sm_87`.
        units: How many there are, in the vendor's counting (CUDA cores, engines).
        fp16_tflops: 10^12 operations/s, dense, half precision.
        int8_tops: 10^12 operations/s, dense, 8-bit integers.
        basis: `vendor`, or `derived` (for example half of a figure for sparse weights).
    """

    name: str
    provider: str = ""
    architecture: str = ""
    units: int = 0
    fp16_tflops: float = 0.0
    int8_tops: float = 0.0
    basis: Basis = "vendor"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerMode:
    """A mode of the board's power tool, known by its name: ids differ between boards.

    Args:
        name: `MAXN_SUPER`.
        watts_label: What the vendor calls it, in W: clocks are capped for it, nothing is metered.
            0 where it has none.
        id_hint: Number that it has on the development kit; -1 where it is not known.
    """

    name: str
    watts_label: float = 0.0
    id_hint: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensor:
    """A power sensor that devices of the kind have.

    Args:
        name: Sensor plug-in of the agent.
        scope: What its total covers.
        rails: Labels whose sum is the total; empty where the plug-in has one value.
    """

    name: str
    scope: Scope
    rails: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Threads:
    """Numbers of threads of a session.

    Args:
        default: What an unmodified model runs with; 0 leaves it to the agent.
        candidates: What the search may try.
    """

    default: int = 0
    candidates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonVersions:
    """Versions of Python that systems of the kind come with, `3.10`.

    Args:
        min: The oldest.
        typical: Of the system that such devices usually run.
    """

    min: str = ""
    typical: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtimes:
    """Which onnxruntime there is for the kind.

    Args:
        newest: Newest onnxruntime of the package index, by version of Python.
        gpu_source: Where builds with the GPU's providers come from; empty where there are none.
        banned: Versions that must not be installed, with the reason.
    """

    newest: Mapping[str, str] = field(default_factory=dict[str, str])
    gpu_source: str = ""
    banned: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What must be left free.

    Args:
        free_bytes: Of the agent's folder, for the runtime and a model beside its engines.
        free_memory_bytes: Below it, two sessions are never resident together.
    """

    free_bytes: int = 0
    free_memory_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """Facts about a kind of device; see hardware_profiles/README.md for every key.

    Args:
        name: The file's name.
        title: What a person calls it.
        architecture: `x86_64`, `aarch64`.
        family: Kinds whose models and engines are alike, `jetson-orin`.
        aliases: Other names that `load_profile` takes.
        match: How a device of the kind is recognised.
        features: Instruction-set features that matter (`avx512_vnni`, `dotprod`).
        clusters: Cores by kind, the fastest first.
        providers: Execution providers by preference.
        provider_options: Options by provider that the kind's sessions start from.
        quantization: Integer types to offer; None where int8 is not worth offering.
        provider_quantization: Where a provider wants other types than `quantization`.
        float_only: Providers that gain nothing from integers.
        float16: Providers that compute faster in half precision than in single.
        channel_block: Widths that are multiples of it run at full speed.
        opset_ceiling: The highest operator set that its usual runtime takes.
        memory_bytes: 0 where kinds differ.
        bandwidth: Of memory.
        accelerators: Units beside the CPU.
        power_modes: Of the board's power tool.
        default_power_mode: The one it boots in; empty where not known.
        sensors: Power sensors by preference.
        throttle_counters: Sources of throttle evidence.
        threads: Numbers of threads.
        python: Versions of Python.
        runtimes: Versions of onnxruntime.
        limits: What must be left free.
        traps: What is known to go wrong, in sentences.
        tried_on_hardware: Whether edgeopt was ever run on such a device.
        sources: Fact to where it comes from.
    """

    name: str
    title: str
    architecture: str
    family: str = ""
    aliases: tuple[str, ...] = ()
    match: Match = Match()
    features: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    provider_options: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    quantization: QuantizationTypes | None = None
    provider_quantization: Mapping[str, QuantizationTypes] = field(
        default_factory=dict[str, QuantizationTypes]
    )
    float_only: tuple[str, ...] = ()
    float16: tuple[str, ...] = ()
    channel_block: int = 8
    opset_ceiling: int = 21
    memory_bytes: int = 0
    bandwidth: MemoryBandwidth = MemoryBandwidth()
    accelerators: tuple[Accelerator, ...] = ()
    power_modes: tuple[PowerMode, ...] = ()
    default_power_mode: str = ""
    sensors: tuple[Sensor, ...] = ()
    throttle_counters: tuple[str, ...] = ()
    threads: Threads = Threads()
    python: PythonVersions = PythonVersions()
    runtimes: Runtimes = Runtimes()
    limits: Limits = Limits()
    traps: tuple[str, ...] = ()
    tried_on_hardware: bool = False
    sources: Mapping[str, str] = field(default_factory=dict[str, str])

    def quantization_for(self, provider: str) -> QuantizationTypes | None:
        """Integer types worth offering on a provider; None where it gains nothing from them."""
        if provider in self.float_only:
            return None
        return self.provider_quantization.get(provider, self.quantization)

    def on(self, provider: str) -> "DeviceProfile":
        """The profile with what holds for one of its providers alone."""
        return replace(
            self,
            quantization=self.quantization_for(provider),
            float16=tuple(name for name in self.float16 if name == provider),
        )
