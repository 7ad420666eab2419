"""Which of the profiles fits a device, by what its agent's probe found."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, cast

from edgeopt.core.profile import DeviceProfile

# onnxruntime 1.N to the highest operator set that it takes (onnxruntime.ai/docs/reference/
# compatibility.html); newer ones take at least that of the last row.
_OPSETS = dict(zip(range(8, 19), (14, 15, 15, 16, 17, 17, 18, 19, 19, 20, 21), strict=True))


class Rank(IntEnum):
    """How a profile was recognised: the higher, the surer."""

    NONE = 0
    FEATURES = 1
    SYSTEM = 2
    PARTS = 3
    SOC = 4
    MODEL = 5
    COMPATIBLE = 6
    MODULE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A profile and what it was recognised by."""

    profile: DeviceProfile
    rank: Rank


def rank_of(profile: DeviceProfile, facts: Mapping[str, Any]) -> Rank:
    """What of the facts says that the device is of the profile's kind."""
    features = frozenset[str](facts.get("features") or ())
    if profile.architecture != facts.get("architecture"):
        return Rank.NONE
    if features and not features.issuperset(profile.features):
        return Rank.NONE
    rules = profile.match
    release = cast("Mapping[str, Any]", facts.get("os_release") or {})
    texts = (facts.get("board"), facts.get("board_model"))
    tests = (
        (Rank.MODULE, _any([facts.get("module")], rules.module_ids)),
        (Rank.COMPATIBLE, _any(facts.get("compatible") or (), rules.compatible)),
        (Rank.MODEL, _any(texts, rules.models)),
        (Rank.MODEL, _any([facts.get("cpu_model")], rules.cpu_models)),
        (Rank.SOC, facts.get("soc") in rules.socs),
        (Rank.PARTS, _same_parts(facts.get("cpu_parts"), rules.cpu_parts)),
        (Rank.SYSTEM, release.get("ID") in rules.systems),
    )
    for rank, fits in tests:
        if fits:
            return rank
    # A profile of a certain board is never taken for one that merely has the same features.
    ruled = any(getattr(rules, name) for name in rules.__slots__)
    return Rank.NONE if ruled or not features else Rank.FEATURES


def choose(profiles: Iterable[tuple[int, DeviceProfile]], facts: Mapping[str, Any]) -> Found | None:
    """The profile that fits best, of pairs of the folder's position and a profile.

    The surest recognition counts; then the folder that comes first; then, where only features
    are known, the most of them, otherwise the most careful: least memory, lowest operator set.
    """
    ranked = [(rank_of(each, facts), -position, each) for position, each in profiles]
    best = max((rank for rank, _, _ in ranked), default=Rank.NONE)
    if best is Rank.NONE:
        return None
    equals = [(position, each) for rank, position, each in ranked if rank == best]
    nearest = max(position for position, _ in equals)
    last = [each for position, each in equals if position == nearest]
    if best is Rank.FEATURES:
        most = max(len(each.features) for _, each in equals)
        rich = [(position, each) for position, each in equals if len(each.features) == most]
        profile = max(rich, key=lambda pair: (pair[0], pair[1].name))[1]
    else:
        profile = min(last, key=lambda p: (p.memory_bytes or float("inf"), p.opset_ceiling, p.name))
    return Found(profile=_noted(profile, best, facts), rank=best)


def fitted(profile: DeviceProfile, facts: Mapping[str, Any]) -> DeviceProfile:
    """The profile for one device: its own runtime and memory may be less than the kind's.

    The operator-set ceiling sinks to what the installed runtime takes; a banned runtime, an
    emulated processor, and memory that is much less are said in `traps`.
    """
    notes: list[str] = []
    runtime = str(facts.get("runtime") or "")
    ceiling = min(profile.opset_ceiling, opset_of(runtime) or profile.opset_ceiling)
    if runtime in profile.runtimes.banned:
        notes.append(
            f"onnxruntime {runtime} must not be used here: {profile.runtimes.banned[runtime]}"
        )
    if facts.get("machine_kind") == "emulated":
        notes.append("The processor is emulated: no time measured here says anything of a board.")
    memory = int(facts.get("memory_bytes") or 0)
    if 0 < memory < 0.75 * profile.memory_bytes:
        notes.append(
            f"The device has {memory / 2**30:.1f} GiB of memory, the profile is of a kind with "
            f"{profile.memory_bytes / 2**30:.0f} GiB."
        )
    else:
        memory = profile.memory_bytes
    return replace(
        profile, opset_ceiling=ceiling, memory_bytes=memory, traps=(*notes, *profile.traps)
    )


def opset_of(runtime: str) -> int | None:
    """The highest operator set that a version of onnxruntime takes; None where not known."""
    parts = runtime.split(".")
    if len(parts) < 2 or parts[0] != "1" or not parts[1].isdigit():
        return None
    return _OPSETS.get(min(int(parts[1]), max(_OPSETS)))


def contradiction(profile: DeviceProfile, facts: Mapping[str, Any], found: Found | None) -> str:
    """One sentence on what speaks against a chosen profile, empty where nothing does.

    `found` is what the device was recognised as.
    """
    if profile.architecture != facts.get("architecture"):
        return (
            f"the profile {profile.name} is of {profile.architecture}, "
            f"the device is {facts.get('architecture')}"
        )
    missing = sorted(set(profile.features).difference(facts.get("features") or ()))
    if missing and facts.get("features"):
        return f"the profile {profile.name} says {', '.join(missing)}, which the device lacks"
    own = rank_of(profile, facts)
    if found is None or own >= found.rank or found.profile.name == profile.name:
        return "" if own or not _says_what_it_is(facts) else _unsupported(profile, facts)
    if found.rank > Rank.FEATURES:
        return (
            f"the device says it is {_itself(facts)}, which the profile {found.profile.name} "
            f"fits; the profile chosen is {profile.name}"
        )
    return _unsupported(profile, facts) if _says_what_it_is(facts) else ""


def _any(texts: Iterable[Any], patterns: Sequence[str]) -> bool:
    return any(
        fnmatch.fnmatchcase(str(text), pattern) for text in texts if text for pattern in patterns
    )


def _same_parts(found: Any, parts: Sequence[str]) -> bool:
    return bool(parts) and frozenset[str](found or ()) == frozenset(parts)


def _noted(profile: DeviceProfile, rank: Rank, facts: Mapping[str, Any]) -> DeviceProfile:
    """With a trap that says so where the board itself is not known."""
    if rank not in (Rank.SOC, Rank.PARTS):
        return profile
    seen = facts.get("soc") if rank is Rank.SOC else " and ".join(facts.get("cpu_parts") or ())
    note = f"No profile knows {_itself(facts)}: {profile.name} is the most careful one with {seen}."
    return replace(profile, traps=(note, *profile.traps))


def _says_what_it_is(facts: Mapping[str, Any]) -> bool:
    return bool(facts.get("compatible") or facts.get("board"))


def _itself(facts: Mapping[str, Any]) -> str:
    name = facts.get("board_model") or facts.get("board") or "this board"
    return f"{name} ({facts['module']})" if facts.get("module") else str(name)


def _unsupported(profile: DeviceProfile, facts: Mapping[str, Any]) -> str:
    return (
        f"nothing on the device says that it is of the kind {profile.name}: "
        f"it says it is {_itself(facts)}"
    )
