"""Shift probes: the test samples under built-in shifts, made on access.

Whatever changes weights from data is accepted only if it holds on these too: a distilled net
that gained 2.4 points on fresh items lost 11.5 on shifted ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgeopt.core.data import Array, Feed, Part
from edgeopt.core.model import Model, TensorSpec
from edgeopt.data.options import KINDS, DataOptions, nearest
from edgeopt.data.preprocess import image_layout
from edgeopt.data.shifts import AUDIO, FEATURES, IMAGE, Shift, Statistics, statistics
from edgeopt.data.source import LazyFeeds
from edgeopt.errors import DataError

_LOOKED_AT = 64
_LONG = 256
_SHIFTS: Mapping[str, Mapping[str, Shift]] = {
    "image": IMAGE,
    "audio": AUDIO,
    "features": FEATURES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What is shifted: an input, as what, and what is known about its values."""

    name: str
    kind: str
    spec: TensorSpec
    known: Statistics | None


def built_in_probes(
    test: Part, model: Model, options: DataOptions
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The probes that fit the data, and notes on those that were expected and do not.

    The shifted input is the largest one that is not fed from an output: images have four axes,
    audio a last axis of 256 and more or the option `kind`, tokens are integers; whatever else is
    float gets noise only.

    Raises:
        DataError: A probe was named that does not exist for this kind of data.
    """
    if options.probes == ():
        return (), ()
    subject = _subject(test, model, options)
    if subject is None:
        return _none(options, "the inputs are neither floats nor tokens")
    if subject.kind == "tokens":
        return _by_length(test, model, options)
    shifts = _SHIFTS[subject.kind]
    chosen = tuple(shifts) if options.probes is None else options.probes
    _require(chosen, shifts, subject.kind)
    probes = tuple(_shifted(test, name, shifts[name], subject, options.seed) for name in chosen)
    return probes, ()


def kind_of_samples(test: Part, model: Model, options: DataOptions) -> str:
    """What the input that is shifted holds; empty where none is.

    Raises:
        DataError: As `built_in_probes`.
    """
    if options.probes == () or not len(test):
        return options.kind
    subject = _subject(test, model, options)
    return "" if subject is None else subject.kind


def built_in_guards(search: Part, model: Model, options: DataOptions) -> tuple[Part, ...]:
    """The same shifts of search samples, under names of their own.

    Raises:
        DataError: As `built_in_probes`.
    """
    found, _ = built_in_probes(search, model, options)
    return tuple(replace(part, name=f"search under {part.name}") for part in found)


def broadened(calibration: Part, model: Model, options: DataOptions) -> Part | None:
    """Calibration samples under the built-in shifts, each at half and at full strength.

    For whoever derives ranges from data: what a probe does to values is then among what was
    seen. Sample after sample (group after group) takes the next shift, and the samples are gone
    through once for each; None where no built-in shift fits.
    """
    if options.probes == () or not len(calibration):
        return None
    subject = _subject(calibration, model, options)
    if subject is None or subject.kind not in _SHIFTS:
        return None
    shifts = _SHIFTS[subject.kind]
    if options.probes is not None:
        shifts = {name: shift for name, shift in shifts.items() if name in options.probes}
    if not shifts:
        return None
    variants = [
        _shifted(calibration, name, shift, subject, options.seed, share)
        for name, shift in shifts.items()
        for share in (0.5, 1.0)
    ]
    count = len(calibration)
    owner = np.arange(count) if calibration.group is None else _ranks(calibration.group)

    def at(index: int) -> Feed:
        turn, sample = divmod(index, count)
        return variants[(int(owner[sample]) + turn) % len(variants)].feeds[sample]

    positions = np.arange(count * len(variants))
    group = None
    if calibration.group is not None:
        group = owner[positions % count] + positions // count * (int(owner.max()) + 1)
    return Part(name="broad", feeds=LazyFeeds(at, positions), group=group)


def _ranks(group: Array) -> npt.NDArray[np.int64]:
    """The number of each sample's group, groups counted in order."""
    return np.concatenate([[0], np.cumsum(group[1:] != group[:-1])]).astype(np.int64)


def _none(options: DataOptions, reason: str) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    if options.probes:
        raise DataError(
            f"the probe {options.probes[0]!r} does not fit this data: {reason}",
            hint="leave probes out, or give probe_sets of your own",
        )
    return (), (f"no built-in shift probes: {reason}",)


def _require(chosen: tuple[str, ...], available: Mapping[str, object], kind: str) -> None:
    for name in chosen:
        if name not in available:
            raise DataError(
                f"there is no probe {name!r} for {kind} data", hint=nearest(name, available)
            )


def kind_of(spec: TensorSpec, shape: tuple[int, ...]) -> str:
    """`image`, `audio`, `tokens`, `features`, or empty: what an input seems to hold."""
    if spec.dtype.startswith("int"):
        return "tokens" if len(shape) == 2 else ""
    if not spec.dtype.startswith("float"):
        return ""
    if len(shape) == 4:
        return "image"
    return "audio" if len(shape) in (2, 3) and shape[-1] >= _LONG else "features"


def _subject(test: Part, model: Model, options: DataOptions) -> _Subject | None:
    if options.kind and options.kind not in KINDS:
        raise DataError(f"there is no kind {options.kind!r}", hint=nearest(options.kind, KINDS))
    first = test.feeds[0]
    fed = set(options.state.values())
    able = [spec for spec in model.inputs if spec.name not in fed and first[spec.name].ndim]
    able = [spec for spec in able if options.kind or kind_of(spec, first[spec.name].shape)]
    if not able:
        return None
    spec = max(able, key=lambda found: first[found.name].size)
    kind = options.kind or kind_of(spec, first[spec.name].shape)
    if kind == "tokens":
        return _Subject(name=spec.name, kind=kind, spec=spec, known=None)
    samples = [test.feeds[i][spec.name] for i in range(min(_LOOKED_AT, len(test)))]
    channel, axes = _axes(spec, kind, samples[0].ndim)
    known = statistics(samples, channel=channel, axes=axes)
    return _Subject(name=spec.name, kind=kind, spec=spec, known=known)


def _axes(spec: TensorSpec, kind: str, rank: int) -> tuple[int | None, tuple[int, ...]]:
    if kind != "image":
        return None, (rank - 1,)
    if rank != 4:
        raise DataError(f"{spec.name} has {rank} axes, an image has 4", where=spec.name)
    return (3, (1, 2)) if image_layout(spec.shape) == "nhwc" else (1, (2, 3))


def _shifted(
    test: Part, name: str, shift: Shift, subject: _Subject, seed: int, share: float = 1.0
) -> Part:
    """A part under a shift, of which `share` of the way is gone."""
    known = subject.known
    if known is None:
        raise ValueError("only inputs with statistics are shifted")
    salt = int.from_bytes(name.encode()[:8], "little")

    def at(index: int) -> Feed:
        feed = test.feeds[index]
        given = feed[subject.name].astype(np.float64)
        generator = np.random.default_rng([seed, salt, index])
        found = shift(given, known, generator)
        if share != 1.0:
            found = given + share * (found - given)
        return {**feed, subject.name: found.astype(feed[subject.name].dtype)}

    return _over(test, name, at)


def _over(test: Part, name: str, at: Callable[[int], Feed]) -> Part:
    feeds = LazyFeeds(at, np.arange(len(test)))
    return Part(name=name, feeds=feeds, target=test.target, group=test.group)


def _by_length(
    test: Part, model: Model, options: DataOptions
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Token sequences cut to three quarters of what is not masked."""
    if options.probes is not None:
        _require(options.probes, {"length": None}, "tokens")
    first = test.feeds[0]
    shapes = {first[spec.name].shape for spec in model.inputs}
    sequences = all(
        spec.dtype.startswith("int")
        and spec.shape is not None
        and len(spec.shape) == 2
        and not isinstance(spec.shape[1], int)
        for spec in model.inputs
    )
    if not sequences or len(shapes) != 1:
        return _none(options, "the inputs do not share one free sequence axis")
    length = first[model.inputs[0].name].shape[1]
    if test.target is not None and test.target.ndim > 1 and length in test.target.shape[1:]:
        return _none(options, "labels follow the sequence, so it cannot be cut")
    masks = [spec.name for spec in model.inputs if "mask" in spec.name.lower()]

    def at(index: int) -> Feed:
        feed = test.feeds[index]
        kept = _three_quarters(feed, masks)
        return {name: array[:, :kept] for name, array in feed.items()}

    return (_over(test, "length", at),), ()


def _three_quarters(feed: Feed, masks: list[str]) -> int:
    length = next(iter(feed.values())).shape[1]
    seen = int(np.max(np.sum(feed[masks[0]] != 0, axis=1))) if masks else length
    return max(1, -(-3 * seen // 4))
