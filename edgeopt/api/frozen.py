"""What the built models need to take and nothing else: `--freeze x=1x3x48x192`.

Of an input that is a single number (`--freeze rate=16000`) it is the value that it always has.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgeopt.api.subject import Subject
from edgeopt.core.action import Recipe
from edgeopt.core.data import Feed, Part
from edgeopt.core.model import Model, TensorSpec
from edgeopt.errors import UsageError
from edgeopt.graph.inputs import random_feeds

Frozen = Mapping[str, tuple[int | None, ...]]
"""Input name to sizes; None for what stays free."""
_FREE = "?"
_TRANSFORM = "freeze_shapes"
_OF_VALUES = "freeze_value"


def parsed(texts: Iterable[str]) -> dict[str, tuple[int | None, ...]]:
    """`x=1x3x48x192` each as name and sizes; `?` is what stays free.

    Raises:
        UsageError: It is not a shape.
    """
    found: dict[str, tuple[int | None, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        words = sizes.split("x") if sizes else []
        fit = all(w == _FREE or (w.isdecimal() and int(w) > 0) for w in words)
        if not (name and words and fit):
            raise UsageError(
                f"{text!r} is not a shape to freeze",
                hint=f"write --freeze x=1x3x48x192, with {_FREE} for a size that stays free",
            )
        found[name] = tuple(None if word == _FREE else int(word) for word in words)
    return found


def texts(frozen: Frozen) -> list[str]:
    """The shapes as `parsed` reads them, in the order of the names."""
    return [
        f"{name}={'x'.join(_FREE if size is None else str(size) for size in sizes)}"
        for name, sizes in sorted(frozen.items())
    ]


def values(frozen: Frozen, model: Model) -> dict[str, int]:
    """What is frozen of inputs that are single numbers: their values."""
    numbers = {spec.name for spec in model.inputs if spec.shape == ()}
    alone = {name: sizes[0] for name, sizes in frozen.items() if len(sizes) == 1}
    return {n: size for n, size in alone.items() if size is not None and n in numbers}


def shapes(frozen: Frozen, model: Model) -> Frozen:
    """What is frozen of all other inputs."""
    numbers = values(frozen, model)
    return {name: sizes for name, sizes in frozen.items() if name not in numbers}


def remarks(frozen: Frozen, model: Model) -> list[str]:
    """What the built models no longer do, one sentence each."""
    numbers = values(frozen, model)
    return [
        f"other values: models with {_OF_VALUES} compute for {text} only, as you allowed"
        if text.rpartition("=")[0] in numbers
        else f"other shapes: models with {_TRANSFORM} take {text} only, as you allowed"
        for text in texts(frozen)
    ]


def of_recipe(recipe: Recipe) -> Frozen:
    """What a recipe freezes, as it was asked for."""
    named = {_TRANSFORM: "shape", _OF_VALUES: "value"}
    actions = (action for action in recipe.actions if action.transform in named)
    return parsed(f"{action.site}={action.get(named[action.transform])}" for action in actions)


def said(recipe: Recipe) -> list[str]:
    """What whoever deploys a model of the recipe must know, one sentence an input."""
    return [
        f"It takes {text} only; the given model takes more." for text in texts(of_recipe(recipe))
    ]


def without_data(
    model: Model,
    count: int,
    frozen: Frozen,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
) -> Sequence[Feed]:
    """Random feeds of the frozen shapes; a leading size that stays free becomes 1.

    Raises:
        UsageError: Another free axis has no size, by `shapes` or frozen.
    """
    numbers = values(frozen, model)
    known = {
        name: tuple(1 if size is None else size for size in sizes)
        for name, sizes in frozen.items()
        if None not in sizes[1:] and name not in numbers
    }
    feeds = random_feeds(model, count, shapes={**known, **(shapes or {})}, seed=seed)
    return [
        {**feed, **{name: np.full_like(feed[name], number) for name, number in numbers.items()}}
        for feed in feeds
    ]


def refuse_unfit(
    frozen: Frozen, subject: Subject, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Refuse shapes that the model or its data do not have.

    Raises:
        UsageError: Which one, and what there is.
    """
    inputs = {spec.name: spec for spec in subject.model.inputs}
    numbers = values(frozen, subject.model)
    for name, sizes in frozen.items():
        if name not in inputs:
            raise UsageError(
                f"the model has no input {name!r} to freeze", hint=f"inputs: {', '.join(inputs)}"
            )
        if name in numbers:
            _refuse_values(name, numbers[name], subject)
            continue
        _refuse(inputs[name], sizes)
        for part in _parts(subject):
            odd = {feed[name].shape for feed in part.feeds if not _fits(feed[name].shape, sizes)}
            if odd:
                raise UsageError(
                    f"the {part.name} data has {name!r} of shape {list(min(odd))}",
                    hint="freeze what all samples have, or write ? for a size that differs",
                )
        if shapes and name in shapes and not _fits(shapes[name], sizes):
            raise UsageError(f"--shape and --freeze differ for {name!r}", hint="leave one out")


def _refuse(spec: TensorSpec, sizes: tuple[int | None, ...]) -> None:
    held = spec.shape
    fixed = () if held is None else tuple(d if isinstance(d, int) else None for d in held)
    clash = any(a is not None and b not in (None, a) for a, b in zip(fixed, sizes, strict=False))
    if held is None or len(held) != len(sizes) or clash:
        (asked,) = texts({spec.name: sizes})
        raise UsageError(
            f"input {spec.name!r} has the shape {list(held or (_FREE,))}, which is not {asked}",
            hint="freeze the free axes only, and give all the others as they are",
        )


def _refuse_values(name: str, number: int, subject: Subject) -> None:
    for part in _parts(subject):
        other = next((f[name] for f in part.feeds if np.any(f[name] != number)), None)
        if other is not None:
            raise UsageError(
                f"the {part.name} data has {name!r} of {other}, which is not {number}",
                hint="freeze a value that all samples have",
            )


def _fits(shape: Sequence[int], sizes: Sequence[int | None]) -> bool:
    return len(shape) == len(sizes) and all(
        b is None or a == b for a, b in zip(shape, sizes, strict=True)
    )


def _parts(subject: Subject) -> Sequence[Part]:
    data = subject.data
    return () if data is None else (data.calibration, data.search, data.test, *data.probes)
