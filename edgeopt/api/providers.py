"""Which execution provider a study runs on, and which runtime settings are worth trying beside it.

Pure functions of the device's entry, its profile and what its agent found out.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from edgeopt.api.device_facts import cure
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.device import DeviceEntry
from edgeopt.core.profile import DeviceProfile
from edgeopt.errors import DeviceError, UsageError
from edgeopt.targets.runtimes import advice

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
COMPILING = frozenset({OPENVINO, TENSORRT})
"""They build an engine when a session is opened; the agent keeps it and counts the builds."""
_SUFFIX = "ExecutionProvider"
_THREADED = frozenset({CPU, OPENVINO})
_START: Mapping[str, Mapping[str, str]] = {
    # Named, since the wheel's own choice depends on which plug-ins the machine has.
    OPENVINO: {"device_type": "CPU"},
    # The other searches try every algorithm at the first run of every new shape.
    CUDA: {"cudnn_conv_algo_search": "HEURISTIC"},
}
_USUAL: Mapping[str, tuple[tuple[str, Mapping[str, str]], ...]] = {
    TENSORRT: (("tensorrt_fp16", {"trt_fp16_enable": "True"}),),
    OPENVINO: (("openvino_accuracy", {"precision": "ACCURACY"}),),
    CUDA: (("cuda_exhaustive", {"cudnn_conv_algo_search": "EXHAUSTIVE"}),),
}
_BF16_GEMM = "mlas.enable_gemm_fastmath_arm64_bfloat16"


class ProviderChoice(NamedTuple):
    """What a study's sessions are opened with.

    Args:
        provider: By its runtime name.
        options: That a session starts from.
        why: One clause for a reader.
    """

    provider: str
    options: Mapping[str, str]
    why: str


def choose_provider(
    entry: DeviceEntry, profile: DeviceProfile, facts: Mapping[str, Any]
) -> ProviderChoice:
    """The entry's provider, else the profile's first that the runtime lists and that ran there.

    Raises:
        UsageError: The entry names none that exists on that runtime.
        DeviceError: It was seen not to run there, or the runtime has no provider at all.
    """
    listed = tuple(str(name) for name in facts.get("providers") or ())
    if not listed:
        problem = facts.get("runtime_error") or "the runtime lists no execution provider"
        raise DeviceError(str(problem), where=entry.name, hint=cure(entry, advice(facts)))
    proven: Mapping[str, Mapping[str, Any]] = facts.get("providers_proven") or {}
    if entry.provider:
        name = full_name(entry.provider, listed, where=entry.name)
        if _disproved(proven, name):
            raise DeviceError(
                f"{name} does not run there: {proven[name].get('text', '')}",
                where=entry.name,
                hint="mend its installation, or name another provider for the device",
            )
        return ProviderChoice(name, start_options(name, profile), "named for the device")
    for name in (*profile.providers, CPU, *listed):
        if name in listed and not _disproved(proven, name):
            why = _reason(name, profile, listed, proven)
            return ProviderChoice(name, start_options(name, profile), why)
    raise DeviceError(
        "no execution provider of the runtime ran a small model",
        where=entry.name,
        hint="; ".join(f"{name}: {each.get('text', '')}" for name, each in proven.items()),
    )


def full_name(name: str, listed: Sequence[str], *, where: str = "") -> str:
    """`openvino` to `OpenVINOExecutionProvider`, among those that a runtime lists.

    Raises:
        UsageError: It lists none of that name.
    """
    short = {each.removesuffix(_SUFFIX).lower(): each for each in listed}
    wanted = name.lower().removesuffix(_SUFFIX.lower())
    if wanted in short:
        return short[wanted]
    near = difflib.get_close_matches(wanted, short, n=1)
    raise UsageError(
        f"the runtime there has no provider {name!r}; it lists {', '.join(listed)}",
        where=where,
        hint=f"did you mean {near[0]!r}?" if near else "install a runtime that has it",
    )


def start_options(provider: str, profile: DeviceProfile) -> Mapping[str, str]:
    """Options that every session of a provider starts from: the profile's over the general ones."""
    return {**_START.get(provider, {}), **profile.provider_options.get(provider, {})}


def usual_runtimes(
    user: RuntimeSettings, profile: DeviceProfile
) -> tuple[tuple[str, RuntimeSettings], ...]:
    """What a competent user would set on the provider beside its defaults, by name."""
    kept = [*_USUAL.get(user.provider, ())]
    if user.provider == CPU and "bf16" in profile.features:
        kept.append(("cpu_bf16_gemm", {_BF16_GEMM: "1"}))
    named = ((name, replace(user, options={**user.options, **more})) for name, more in kept)
    return tuple((name, runtime) for name, runtime in named if runtime != user)


def alternatives(
    profile: DeviceProfile, facts: Mapping[str, Any], user: RuntimeSettings
) -> tuple[RuntimeSettings, ...]:
    """The user's settings first, then what the device allows beside them, most promising first.

    Threads are one, those of the fastest cluster, and all processors that the agent may keep
    busy, with and without idle threads that spin; on boards with clusters, the fastest one alone.
    Providers that do not compute on the CPU get their own options only.
    """
    found = [user]
    if user.provider in _THREADED:
        found += _threaded(profile, facts, user)
    found += [runtime for _, runtime in usual_runtimes(user, profile)]
    return tuple({each.text: each for each in found}.values())


def _threaded(
    profile: DeviceProfile, facts: Mapping[str, Any], user: RuntimeSettings
) -> list[RuntimeSettings]:
    found: list[RuntimeSettings] = []
    room = _processors(facts)
    big = _fastest_cluster(facts)
    if 0 < len(big) <= room:
        found.append(replace(user, threads=len(big), affinity=big))
        found.append(replace(user, threads=1, affinity=big))
    counts = {len(big), room, 1, *profile.threads.candidates}
    for count in sorted((each for each in counts if 0 < each <= room), reverse=True):
        found.append(replace(user, threads=count))
        if count > 1 and user.provider == CPU:
            found.append(replace(user, threads=count, spinning=not user.spinning))
    return found


def _processors(facts: Mapping[str, Any]) -> int:
    """Whole processors that the agent can keep busy: of its mask, as far as its quota goes."""
    allowed = int(facts.get("affinity") or facts.get("cores") or 1)
    quota = facts.get("cpu_quota")
    return max(1, min(allowed, int(quota)) if quota else allowed)


def _fastest_cluster(facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Processors of the first cluster, which is the fastest; empty where all cores are alike."""
    clusters: Sequence[Mapping[str, Any]] = facts.get("clusters") or ()
    if len(clusters) < 2:
        return ()
    return tuple(sorted(int(number) for number in clusters[0].get("cores") or ()))


def _disproved(proven: Mapping[str, Mapping[str, Any]], name: str) -> bool:
    return name in proven and not proven[name].get("ok")


def _reason(
    name: str,
    profile: DeviceProfile,
    listed: Sequence[str],
    proven: Mapping[str, Mapping[str, Any]],
) -> str:
    if name not in profile.providers:
        return f"the runtime lists none of those of {profile.name}"
    passed = profile.providers[: profile.providers.index(name)]
    lacking = [each for each in passed if each not in listed]
    failing = [each for each in passed if _disproved(proven, each)]
    words = [f"the runtime lacks {', '.join(lacking)}"] if lacking else []
    words += [f"{each} does not run there" for each in failing]
    return "; ".join(words) or f"the first of {profile.name}"
