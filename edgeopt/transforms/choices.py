"""From a list of actions to decisions: which exclude each other, and what they are called."""

from collections.abc import Collection, Sequence
from typing import Any

from edgeopt.core.action import Action, Choice, Recipe
from edgeopt.errors import UsageError
from edgeopt.transforms.stages import reached, stage_of, transform_of

SCHEMES = ("static_int8", "dynamic_int8", "size_int8", "weight_only")
"""What a quantize transform is for, in the order in which alternatives of one site are listed: the
first two for speed. A transform says so as its attribute `scheme`; without it is the first."""
_FAST = SCHEMES[:2]
_STAGE_NAMES = ("rewrite and fuse", "prune", "repair of what was pruned", "quantize", "repair")


def on_off(name: str, family: str, actions: Sequence[Action], *, mends: bool = False) -> Choice:
    """All the actions, or none."""
    alternatives = ((), tuple(actions))
    return Choice(
        name=name, family=family, labels=("off", "on"), alternatives=alternatives, mends=mends
    )


def grouped(family: str, actions: Sequence[Action]) -> list[Choice]:
    """One choice a site: nothing, or one of the actions there, those for speed first.

    Of a transform that says so (`parts`) one for each run of neighbours, so many at most.
    """
    by_site: dict[str, list[Action]] = {}
    every = dict.fromkeys(actions)
    listed = dict.fromkeys(action for action in every if not _parts(action))
    for action in sorted(listed, key=_order) if family == "quantize" else listed:
        by_site.setdefault(action.site, []).append(action)
    order = list(dict.fromkeys(action.site for action in listed))
    return [
        Choice(
            name=f"{family}:{site}",
            family=family,
            labels=("off", *_labels(found)),
            alternatives=((), *((action,) for action in found)),
        )
        for site, found in ((site, by_site[site]) for site in order)
    ] + _in_runs(family, [action for action in every if _parts(action)])


def _in_runs(family: str, actions: Sequence[Action]) -> list[Choice]:
    """All or nothing of each run of neighbours of one transform."""
    by_transform: dict[str, list[Action]] = {}
    for action in actions:
        by_transform.setdefault(action.transform, []).append(action)
    return [
        Choice(
            name=f"{family}:{transform}/{number + 1}",
            family=family,
            labels=("off", transform),
            alternatives=((), tuple(run)),
        )
        for transform, found in by_transform.items()
        for number, run in enumerate(_runs(found, _parts(found[0])))
    ]


def _runs(actions: Sequence[Action], most: int) -> list[Sequence[Action]]:
    """As long as one another but for one."""
    count = min(most, len(actions))
    ends = [round(len(actions) * (number + 1) / count) for number in range(count)]
    return [actions[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _parts(action: Action) -> int:
    """How many choices a transform's sites make together at most; 0 where each is its own."""
    return int(getattr(transform_of(action.transform)[1], "parts", 0))


def scheme_of(action: Action) -> str:
    """What a quantize action is for: one of `SCHEMES`."""
    transform: Any = transform_of(action.transform)[1]
    return str(getattr(transform, "scheme", SCHEMES[0]))


def in_order(actions: Sequence[Action], exact: Sequence[Action]) -> list[Action]:
    """Exact ones as they were found to apply; of the others those first that hold a value.

    A value that is held before any channel goes has the mean that it has in the given model: one
    pass over the samples serves all candidates, and what computed it is cut no more.
    """
    place = {action: index for index, action in enumerate(exact)}

    def holds(action: Action) -> bool:
        return bool(getattr(transform_of(action.transform)[1], "holds", False))

    return sorted(actions, key=lambda action: (place.get(action, len(place)), not holds(action)))


def needed(actions: Sequence[Action]) -> list[Action]:
    """Actions without those that only prepare for a scheme (`prepares`) that nothing else has.

    They change no file, so they would make two recipes of one model.
    """
    schemes = {
        scheme_of(action)
        for action in actions
        if transform_of(action.transform)[0] == "quantize" and not _prepares(action)
    }
    return [a for a in actions if not _prepares(a) or _prepares(a) in schemes]


def _prepares(action: Action) -> str:
    transform: Any = transform_of(action.transform)[1]
    return str(getattr(transform, "prepares", ""))


def for_speed(choice: Choice) -> int:
    """The alternative to begin with: the first, or none where all are for size only."""
    return int(all(scheme_of(action) in _FAST for action in choice.alternatives[1]))


def switched_on(choice: Choice, families: Collection[str]) -> int:
    """The alternative of a choice where some families are on and the others off."""
    if choice.family == "quantize" and choice.family in families:
        return for_speed(choice)
    return int(choice.family in families)


def _order(action: Action) -> int:
    scheme = scheme_of(action)
    return SCHEMES.index(scheme) if scheme in SCHEMES else len(SCHEMES)


def too_late(recipe: Recipe, action: Action) -> str | None:
    """Why a recipe takes an action no more, whatever its graph: decided, or the stage is over."""
    shelf, _ = transform_of(action.transform)
    stage, latest = stage_of(action), reached(recipe)
    if stage and decision(action) in {decision(other) for other in recipe.actions}:
        return f"{shelf} is decided at {action.site!r} already"
    if stage < latest:
        return f"{shelf} comes before {_STAGE_NAMES[latest]}, which has begun"
    return None


def decision(action: Action) -> tuple[str, str]:
    """What an action decides: its family at its site."""
    return transform_of(action.transform)[0], action.site


def label(action: Action) -> str:
    """The transform's name, and its parameters where it has any: `ort_optimize:basic`."""
    values = ",".join(_words(dict(action.parameters)))
    return f"{action.transform}:{values}" if values else action.transform


def check_codes(codes: Sequence[int], choices: Sequence[Choice]) -> None:
    """Refuse codes that do not index alternatives.

    Raises:
        UsageError: Too many or too few, or one without an alternative.
    """
    if len(codes) != len(choices):
        raise UsageError(f"{len(codes)} codes for {len(choices)} choices")
    for code, choice in zip(codes, choices, strict=True):
        if not 0 <= code < len(choice):
            raise UsageError(f"{choice.name} has {len(choice)} alternatives, not number {code}")


def _labels(actions: Sequence[Action]) -> list[str]:
    """What tells the alternatives of one site apart.

    Of a single one its parameter, or the transform's name where it has none or several.
    """
    if len(actions) == 1:
        words = _words(dict(actions[0].parameters))
        return words if len(words) == 1 else [actions[0].transform]
    shared = set(actions[0].parameters)
    for action in actions[1:]:
        shared &= set(action.parameters)
    several = len({action.transform for action in actions}) > 1
    found: list[str] = []
    for action in actions:
        own = {key: value for key, value in action.parameters if (key, value) not in shared}
        words = ([action.transform] if several else []) + _words(own)
        found.append(",".join(words) or action.transform)
    return found


def _words(parameters: dict[str, str | int | float | bool]) -> list[str]:
    """Values as they are; a flag by its name where it is set."""
    return [
        key if value is True else str(value)
        for key, value in parameters.items()
        if value is not False
    ]
