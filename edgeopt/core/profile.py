"""`DeviceProfile`: what a kind of device is, never how to reach it. From one TOML file.

The profile decides which actions are offered; applying an action never looks at it, so that a
recipe means the same everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationTypes:
    """What integer types the provider computes fast in.

    Args:
        activation: `uint8` or `int8`.
        weight: `int8` or `uint8`.
        per_channel: Whether weights may have one scale a channel.
        reduce_range: 7-bit weights, where 16-bit accumulation saturates.
    """

    activation: str = "uint8"
    weight: str = "int8"
    per_channel: bool = True
    reduce_range: bool = False


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """Facts about a kind of device; see hardware_profiles/README.md for every key.

    Args:
        name: The file's name.
        title: What a person calls it.
        architecture: `x86_64`, `aarch64`.
        features: Instruction-set features that matter (`avx512_vnni`, `dotprod`).
        providers: Execution providers by preference.
        quantization: Integer types to offer; None where int8 is not worth offering.
        channel_block: Widths that are multiples of it run at full speed.
        opset_ceiling: The highest operator set that its usual runtime takes.
        memory_bytes: 0 where kinds differ.
        sensors: Sensor plug-ins by preference.
        traps: What is known to go wrong, in sentences.
        tried_on_hardware: Whether edgeopt was ever run on such a device.
        sources: Fact to where it comes from.
    """

    name: str
    title: str
    architecture: str
    features: tuple[str, ...] = ()
    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    quantization: QuantizationTypes | None = None
    channel_block: int = 8
    opset_ceiling: int = 21
    memory_bytes: int = 0
    sensors: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    tried_on_hardware: bool = False
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
