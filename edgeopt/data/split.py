"""Three disjoint parts by the digest of the samples' content.

Samples (whole groups, where there are groups) are ordered by the digest of their inputs and the
seed, and the order is cut: calibration, search, test. So a sample's place does not depend on the
order in the file, duplicates fall into the same part, also when their labels differ, and the
first samples of a part are a random draw of it. Within a group the file's order is kept.

Calibration takes a fifth of the samples and 1,024 at most: statistics use the first 256 of them,
and what trains a pruned net needs more; the rest is worth more where accuracy is decided.

Scarce data (under 200 samples): the parts are the two folds of a cross-fit. Choosing on `search`
and judging on `test` uses half of what is held out; `cross_fit` chooses on each fold, judges on
the other, and pools both, so that every held-out sample is judged by a choice that did not see it.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgeopt.core import digest as digests
from edgeopt.core.data import Array, DataSet, Feed, Part
from edgeopt.core.protocols import AccuracyMetric
from edgeopt.data.evaluate import Scored
from edgeopt.data.options import DataOptions, nearest
from edgeopt.data.source import Integers, LazyFeeds, Source
from edgeopt.errors import DataError

FRACTIONS: Mapping[str, float] = {"calibration": 0.2, "search": 0.4, "test": 0.4}
CALIBRATION_LIMIT = 1024
SCARCE = 200


@dataclass(frozen=True, slots=True)
class _Unit:
    """Samples that stay together: a group, or all samples with the same content."""

    key: str
    members: tuple[int, ...]


def split(source: Source, options: DataOptions, *, where: str) -> DataSet:
    """The source as a data set without probes.

    Raises:
        DataError: Invalid fractions, or fewer samples (groups) than parts.
    """
    fractions = _fractions(options.split, where)
    found = contents(source)
    units = _limited(_units(found, source.group, options.seed), options.limit)
    cut = _cut(units, fractions, capped="calibration" not in options.split)
    for name, chosen in cut.items():
        if not chosen and fractions[name]:
            kind = "different samples" if source.group is None else "different groups"
            raise DataError(
                f"{len(units)} {kind} are too few for three parts: {name} would be empty",
                where=where,
                hint="give more data, or other fractions under 'split'",
            )
    parts = {
        name: _part(name, source, [i for unit in chosen for i in unit.members])
        for name, chosen in cut.items()
    }
    return DataSet(
        digest=_digest(found, source, parts, options),
        calibration=parts["calibration"][0],
        search=parts["search"][0],
        test=parts["test"][0],
        notes=_notes(units, parts),
    )


def cross_fit(
    candidates: Sequence[tuple[Scored, Scored]],
    metric: AccuracyMetric,
    choose: Callable[[Sequence[float]], int],
) -> float:
    """What a way of choosing is worth, judged on all held-out samples.

    Args:
        candidates: Each one's evidence on the search and on the test part.
        metric: Computes the value over the pooled rows.
        choose: Index of the candidate to take, given each one's value on one fold.
    """
    pooled: list[Array] = []
    for chosen_on, judged_on in ((0, 1), (1, 0)):
        index = choose([pair[chosen_on].value for pair in candidates])
        pooled.append(candidates[index][judged_on].evidence)
    return metric.value(np.concatenate(pooled))


def _fractions(given: Mapping[str, float], where: str) -> Mapping[str, float]:
    for name, share in given.items():
        if name not in FRACTIONS:
            raise DataError(
                f"there is no part {name!r}", where=where, hint=nearest(name, FRACTIONS)
            )
        if isinstance(share, bool) or not 0 <= share <= 1:
            raise DataError(f"the fraction of {name} is {share}, not within 0 and 1", where=where)
    if not given:
        return FRACTIONS
    missing = [name for name in FRACTIONS if name not in given]
    rest = 1.0 - sum(given.values())
    found = dict(given) | {name: rest / len(missing) for name in missing}
    if abs(sum(found.values()) - 1) > 1e-6 or not found["search"] > 0 or not found["test"] > 0:
        raise DataError(
            f"the fractions {found} do not add up to 1 with something for search and test",
            where=where,
            hint='for example {"calibration": 0.2, "search": 0.4, "test": 0.4}',
        )
    return found


def contents(source: Source) -> list[str]:
    """A digest a sample, of its inputs as stored."""
    return [_content(source.stored(index)) for index in range(source.count)]


def _content(stored: Feed) -> str:
    """Digest of a sample's inputs as stored."""
    found = hashlib.sha256()
    for name in sorted(stored):
        array = stored[name]
        found.update(f"{name}:{array.dtype.str}{array.shape};".encode())
        found.update(_bytes(array))
    return found.hexdigest()


def _bytes(array: Array) -> bytes | memoryview:
    if array.dtype.hasobject:
        return json.dumps(array.tolist()).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _units(contents: Sequence[str], group: Array | None, seed: int) -> list[_Unit]:
    together: dict[object, list[int]] = {}
    for index, content in enumerate(contents):
        together.setdefault(content if group is None else int(group[index]), []).append(index)
    merged: dict[str, list[int]] = {}
    for members in together.values():
        text = "".join(contents[i] for i in members) if group is not None else contents[members[0]]
        merged.setdefault(hashlib.sha256(f"{seed}:{text}".encode()).hexdigest(), []).extend(members)
    return [_Unit(key, tuple(members)) for key, members in sorted(merged.items())]


def _limited(units: list[_Unit], limit: int | None) -> list[_Unit]:
    if limit is None:
        return units
    sizes = np.cumsum([len(unit.members) for unit in units])
    return units[: int(np.searchsorted(sizes, limit)) + 1]


def _cut(
    units: Sequence[_Unit], fractions: Mapping[str, float], *, capped: bool
) -> dict[str, Sequence[_Unit]]:
    """The units of each part: every part ends at the unit that brings it nearest to its share."""
    sizes = np.cumsum([0, *(len(unit.members) for unit in units)])
    total = int(sizes[-1])
    wanted = fractions["calibration"] * total
    if capped:
        wanted = min(wanted, CALIBRATION_LIMIT)
    first = _nearest_cut(sizes, wanted, 1 if wanted else 0, len(units) - 2)
    share = fractions["search"] / (fractions["search"] + fractions["test"])
    held_out = sizes[first] + share * (total - sizes[first])
    second = _nearest_cut(sizes, float(held_out), first + 1, len(units) - 1)
    return {
        "calibration": units[:first],
        "search": units[first:second],
        "test": units[second:],
    }


def _nearest_cut(sizes: Array, wanted: float, least: int, most: int) -> int:
    """The cut nearest to a number of samples that leaves units on both sides."""
    return int(np.clip(int(np.argmin(np.abs(sizes - wanted))), least, max(least, most)))


def _part(name: str, source: Source, members: Sequence[int]) -> tuple[Part, Integers]:
    order = np.asarray(members, dtype=np.int64)
    part = Part(
        name=name,
        feeds=LazyFeeds(source.feed, order),
        target=None if source.target is None else source.target[order],
        group=None if source.group is None else source.group[order],
    )
    return part, order


def _digest(
    contents: Sequence[str],
    source: Source,
    parts: Mapping[str, tuple[Part, Integers]],
    options: DataOptions,
) -> str:
    """Of all samples and targets by part, and of every option that changes what is computed."""
    lines: list[str] = [
        json.dumps(
            [
                sorted(options.preprocess.items()),
                sorted(options.state.items()),
                sorted(options.metric_options.items()),
                sorted(source.metric_options.items()),
                options.probes,
                sorted(options.probe_sets.items()),
                options.kind,
                options.seed,
            ],
            default=str,
        )
    ]
    for name, (part, order) in parts.items():
        lines += [name, *(contents[int(i)] for i in order)]
        lines += [] if part.target is None else [of_labels(part.target)]
        lines += [] if part.group is None else [digests.of_array(part.group)]
    return digests.of_text("\n".join(lines))


def of_labels(target: Array) -> str:
    """The digest of labels, whose shapes may differ by sample."""
    if not target.dtype.hasobject:
        return digests.of_array(target)
    return digests.of_text("\n".join(digests.of_array(row) for row in target))


def _notes(units: Sequence[_Unit], parts: Mapping[str, tuple[Part, Integers]]) -> tuple[str, ...]:
    total = sum(len(part) for part, _ in parts.values())
    found: list[str] = []
    repeated = total - len(units)
    if parts["search"][0].group is None and repeated:
        found.append(f"{repeated} of {total} samples repeat another one; they share its part")
    if total < SCARCE:
        sizes = ", ".join(f"{name} {len(part)}" for name, (part, _) in parts.items())
        found.append(
            f"only {total} samples ({sizes}): search and test are the two folds of a cross-fit, "
            "and small drops cannot be decided"
        )
    return tuple(found)
