"""What the built models need to take and nothing else: `--freeze x=1x3x48x192`.

Of an input that is a single number (`--freeze rate=16000`) it is the value that it always has.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from edgeopt.api.subject import Subject
from edgeopt.core.action import Recipe
from edgeopt.core.data import Array, Feed, Part
from edgeopt.core.model import Model, TensorSpec
from edgeopt.errors import UsageError
from edgeopt.graph.inputs import random_feeds
from edgeopt.graph.normalize import UNNAMED

Sizes = tuple[int | None, ...]
Frozen = Mapping[str, tuple[int | float | None, ...]]
"""Input name to sizes, None for what stays free; or to the one number that the input always is."""
_FREE = "?"
_TRANSFORM = "freeze_shapes"
_OF_VALUES = "freeze_value"
_SIZE = re.compile(r"[0-9]{1,18}")
_WHOLE = re.compile(r"-?[0-9]{1,40}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?")


def parsed(texts: Iterable[str]) -> dict[str, tuple[int | float | None, ...]]:
    """`x=1x3x48x192` each as name and sizes, `rate=0.5` as name and number; `?` stays free.

    Raises:
        UsageError: It is neither.
    """
    found: dict[str, tuple[int | float | None, ...]] = {}
    for text in texts:
        name, _, asked = text.rpartition("=")
        numbers = _parsed(asked)
        if not (name and numbers):
            raise UsageError(
                f"{text!r} is not a shape to freeze",
                hint=f"write --freeze x=1x3x48x192, with {_FREE} for a size that stays free; "
                "or --freeze rate=16000 for an input that is a single number",
            )
        found[name] = numbers
    return found


def _parsed(asked: str) -> tuple[int | float | None, ...]:
    """Sizes or one number; empty where the text is neither."""
    words = asked.split("x")
    if all(w == _FREE or (_SIZE.fullmatch(w) and int(w)) for w in words):
        return tuple(None if word == _FREE else int(word) for word in words)
    if not _NUMBER.fullmatch(asked):
        return ()
    number = int(asked) if _WHOLE.fullmatch(asked) else float(asked)
    return (number,) if math.isfinite(number) else ()


def texts(frozen: Frozen) -> list[str]:
    """The shapes as `parsed` reads them, in the order of the names."""
    return [
        f"{name}={'x'.join(_FREE if size is None else str(size) for size in sizes)}"
        for name, sizes in sorted(frozen.items())
    ]


def values(frozen: Frozen, model: Model) -> dict[str, int | float]:
    """What is frozen of inputs that are single numbers: their values."""
    numbers = {spec.name for spec in model.inputs if spec.shape == ()}
    alone = {name: sizes[0] for name, sizes in frozen.items() if len(sizes) == 1}
    return {n: size for n, size in alone.items() if size is not None and n in numbers}


def shapes(frozen: Frozen, model: Model) -> dict[str, Sizes]:
    """What is frozen of all other inputs.

    Raises:
        UsageError: It is a number that can be no size.
    """
    numbers = values(frozen, model)
    return {name: _sizes(name, sizes) for name, sizes in frozen.items() if name not in numbers}


def _sizes(name: str, asked: Sequence[int | float | None]) -> Sizes:
    found = tuple(size for size in asked if size is None or (isinstance(size, int) and size > 0))
    if len(found) != len(asked):
        (text,) = texts({name: tuple(asked)})
        raise UsageError(
            f"{text} is not a shape, and input {name!r} is not a single number",
            hint=f"write --freeze {name}=1x3x48x192, with {_FREE} for a size that stays free",
        )
    return found


def remarks(frozen: Frozen, model: Model) -> list[str]:
    """What the built models no longer do, one sentence each."""
    numbers = values(frozen, model)
    return [
        f"other values: models with {_OF_VALUES} compute for {text} only, as you allowed"
        if text.rpartition("=")[0] in numbers
        else f"other shapes: models with {_TRANSFORM} take {text} only, as you allowed"
        for text in texts(frozen)
    ]


def shapes_of(recipe: Recipe) -> dict[str, Sizes]:
    """The shapes that a recipe freezes.

    Raises:
        UsageError: One is no shape.
    """
    actions = [action for action in recipe.actions if action.transform == _TRANSFORM]
    found = parsed(f"{action.site}={action.get('shape', '')}" for action in actions)
    return {name: _sizes(name, sizes) for name, sizes in found.items()}


def values_of(recipe: Recipe) -> dict[str, int | float]:
    """The values that a recipe freezes; what is no number is left to the transform to refuse."""
    actions = [action for action in recipe.actions if action.transform == _OF_VALUES]
    asked = {action.site: action.get("value", "") for action in actions}
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in asked.items()
        if isinstance(value, int | float)
    }


def of_recipe(recipe: Recipe) -> Frozen:
    """What a recipe freezes, as it was asked for."""
    numbers = {name: (value,) for name, value in values_of(recipe).items()}
    return {**shapes_of(recipe), **numbers}


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

    A name that stands for a frozen size has it on all inputs, also on those with a value alone.

    Raises:
        UsageError: Another free axis has no size, by `shapes` or frozen; or what is frozen cannot
            be.
    """
    numbers = values(frozen, model)
    kept = {name: _sizes(name, s) for name, s in frozen.items() if name not in numbers}
    return _feeds(model, count, kept, numbers, shapes or {}, seed)


def feed_of(recipe: Recipe, model: Model) -> Feed | None:
    """A random feed of what a recipe freezes; None where it freezes nothing, or that does not fit.

    Sizes that stay free are a guess, the largest frozen height or width: an image is seldom
    narrower than the kernels. Whether the recipe fits is the transform's to say, with the action
    at fault.
    """
    try:
        frozen, numbers = shapes_of(recipe), values_of(recipe)
        if not (frozen or numbers):
            return None
        known = [size for sizes in frozen.values() for size in sizes[2:] if size is not None]
        free = max(known, default=1)
        given = {
            name: tuple(size or (free if axis else 1) for axis, size in enumerate(sizes))
            for name, sizes in _everywhere(model, frozen).items()
        }
        return _feeds(model, 1, frozen, numbers, given, 0)[0]
    except UsageError:
        return None


def _feeds(
    model: Model,
    count: int,
    frozen: Mapping[str, Sizes],
    numbers: Mapping[str, int | float],
    given: Mapping[str, tuple[int, ...]],
    seed: int,
) -> Sequence[Feed]:
    known = {
        name: tuple(1 if size is None else size for size in sizes)
        for name, sizes in _everywhere(model, frozen, given).items()
        if None not in sizes[1:]
    }
    feeds = random_feeds(model, count, shapes={**known, **given}, seed=seed)
    inputs = {spec.name: spec for spec in model.inputs if spec.name in numbers}
    held = {name: _held(spec, numbers[name]) for name, spec in inputs.items()}
    return [
        {**feed, **{name: np.full_like(feed[name], value) for name, value in held.items()}}
        for feed in feeds
    ]


def _everywhere(
    model: Model, frozen: Mapping[str, Sizes], given: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, Sizes]:
    """The sizes of all inputs whose rank is known: named sizes are the same on all of them.

    Args:
        model: Whose inputs.
        frozen: Sizes that may not contradict each other.
        given: More sizes, for names that nothing frozen says.

    Raises:
        UsageError: A name would be two sizes at once.
    """
    named: dict[str, int] = {}
    for spec in model.inputs:
        for name, size in _named(spec, frozen.get(spec.name, ())):
            if named.setdefault(name, size) != size:
                raise UsageError(
                    f"{name!r} of input {spec.name!r} would be {named[name]} and {size} at once",
                    hint="sizes of one name are equal: freeze them to the same number",
                )
    for spec in model.inputs:
        for name, size in _named(spec, (given or {}).get(spec.name, ())):
            named.setdefault(name, size)
    return {
        spec.name: tuple(
            dim if isinstance(dim, int) and dim >= 0 else size or named.get(str(dim))
            for dim, size in zip(
                spec.shape, frozen.get(spec.name, (None,) * len(spec.shape)), strict=False
            )
        )
        for spec in model.inputs
        if spec.shape is not None
    }


def _named(spec: TensorSpec, sizes: Sequence[int | None]) -> list[tuple[str, int]]:
    """Names of free dimensions with the sizes that they are to have."""
    return [
        (dim, size)
        for dim, size in zip(spec.shape or (), sizes, strict=False)
        if isinstance(dim, str) and dim not in UNNAMED and size is not None
    ]


def refuse_unfit(
    frozen: Frozen, subject: Subject, given: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Refuse shapes and values that the model or its data do not have.

    Args:
        frozen: What is to be frozen.
        subject: The model and its data.
        given: Shapes to measure with.

    Raises:
        UsageError: Which one, and what there is.
    """
    inputs = {spec.name: spec for spec in subject.model.inputs}
    for name in frozen:
        if name not in inputs:
            raise UsageError(
                f"the model has no input {name!r} to freeze", hint=f"inputs: {', '.join(inputs)}"
            )
    for name, number in values(frozen, subject.model).items():
        _refuse_value(inputs[name], number, subject)
    asked = shapes(frozen, subject.model)
    for name, sizes in asked.items():
        _refuse(inputs[name], sizes)
    own = _everywhere(subject.model, {})
    for name, sizes in _everywhere(subject.model, asked).items():
        if name in asked or sizes != own[name]:
            _refuse_other(name, sizes, subject, (given or {}).get(name))


def _refuse(spec: TensorSpec, sizes: Sizes) -> None:
    held = spec.shape
    fixed = tuple(d if isinstance(d, int) and d >= 0 else None for d in held or ())
    clash = any(a is not None and b not in (None, a) for a, b in zip(fixed, sizes, strict=False))
    if held is None or len(held) != len(sizes) or clash:
        (asked,) = texts({spec.name: sizes})
        shape = _FREE if held is None else list(held)
        raise UsageError(
            f"input {spec.name!r} has the shape {shape}, which is not {asked}",
            hint="freeze the free axes only, and give all the others as they are",
        )


def _refuse_other(name: str, sizes: Sizes, subject: Subject, given: tuple[int, ...] | None) -> None:
    for part in _parts(subject):
        odd = {f[name].shape for f in part.feeds if name in f and not _fits(f[name].shape, sizes)}
        if odd:
            raise UsageError(
                f"the {part.name} data has {name!r} of shape {list(min(odd))}",
                hint="freeze what all samples have, or write ? for a size that differs",
            )
    if given is not None and not _fits(given, sizes):
        raise UsageError(f"--shape and --freeze differ for {name!r}", hint="leave one out")


def _refuse_value(spec: TensorSpec, number: int | float, subject: Subject) -> None:
    held = _held(spec, number)
    for part in _parts(subject):
        other = next((f[spec.name] for f in part.feeds if np.any(f[spec.name] != held)), None)
        if other is not None:
            raise UsageError(
                f"the {part.name} data has {spec.name!r} of {other}, which is not {number}",
                hint="freeze a value that all samples have",
            )


def _held(spec: TensorSpec, number: int | float) -> Array:
    """A number as an input's type holds it.

    Raises:
        UsageError: It cannot.
    """
    try:
        with np.errstate(all="ignore"):
            held = np.asarray(number).astype(spec.dtype)
    except (OverflowError, ValueError, TypeError):
        held = None
    exact = held is not None and held.dtype.kind in "biu" and held.item() == number
    near = held is not None and held.dtype.kind == "f" and bool(np.isfinite(held))
    if held is None or not (exact or near):
        raise UsageError(
            f"input {spec.name!r} is {spec.dtype}, which cannot be {number}",
            hint="freeze a number that the input can have (of a truth value 0 or 1)",
        )
    return held


def _fits(shape: Sequence[int], sizes: Sequence[int | None]) -> bool:
    return len(shape) == len(sizes) and all(
        b is None or a == b for a, b in zip(shape, sizes, strict=True)
    )


def _parts(subject: Subject) -> Sequence[Part]:
    data = subject.data
    return () if data is None else (data.calibration, data.search, data.test, *data.probes)
