"""What this machine hides and the device shows: saturating 16-bit sums, float16 that overflows.

Emulated on a few calibration inputs, only where the device's profile says that it happens there. A
warning beside a measurement, never a figure: what the device's outputs are worth, they say.
"""

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.profile import DeviceProfile
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.transforms.emulate import half, saturation
from edgeopt.transforms.replay import Built, Workshop

_FEEDS = 4
_CPU = "CPUExecutionProvider"
_HALF_OPTIONS = {"trt_fp16_enable": "true", "precision": "fp16"}


def warnings_of(
    workshop: Workshop, built: Built, profile: DeviceProfile, runtime: RuntimeSettings
) -> tuple[str, ...]:
    """Sentences on what the device would make of a candidate; none where nothing is known of it.

    Args:
        workshop: Has the float graph and the calibration inputs.
        built: The candidate.
        profile: Of the device, on the provider that runs it.
        runtime: The candidate's settings.
    """
    types, feeds = profile.quantization, workshop.evidence.feeds(_FEEDS)
    found: list[str] = []
    if types is not None and types.reduce_range and runtime.provider == _CPU and feeds:
        try:
            found = saturation.sentences(saturation.saturated(built.graph, feeds), profile.name)
        except RuntimeFailure as error:
            found = [_unknown(profile, error)]
    if runs_in_half(runtime):
        found += float16_warnings(workshop, profile)
    return tuple(found)


def runs_in_half(runtime: RuntimeSettings) -> bool:
    """Whether an option lets the provider compute a float32 graph in float16."""
    return any(
        runtime.options.get(name, "").lower() == value for name, value in _HALF_OPTIONS.items()
    )


def float16_warnings(workshop: Workshop, profile: DeviceProfile) -> list[str]:
    """Where the float graph does not fit into float16, with nothing to guard it."""
    if not workshop.evidence.feeds(1):
        return []
    try:
        found = half.out_of_half(workshop.normalized, workshop.evidence)
    except RuntimeFailure as error:
        return [_unknown(profile, error)]
    return half.sentences(found, profile.name)


def _unknown(profile: DeviceProfile, error: RuntimeFailure) -> str:
    return f"what {profile.name} makes of it could not be emulated: {error.what}"
