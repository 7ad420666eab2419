"""`Distil`: train the weights of a graph to say what another graph says; see `distil`."""

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.repair._repair import Fitting, Refused, Repair
from edgeopt.transforms.repair._torch import is_installed

SAMPLES = 4096
_CHECKED = 2
_LEAST_SECONDS = 10.0
_CODED_RATE = 8e-4
"""Of learning: a net that was only rounded is near where it should be."""


def distilled(fitting: Fitting) -> None:
    """Train, and put the weights that came out."""
    # torch takes seconds to import, and only the extra `rl` has it.
    from edgeopt.transforms.repair._any_batch import any_batch
    from edgeopt.transforms.repair._loss import heads, taps
    from edgeopt.transforms.repair._teacher import Teacher
    from edgeopt.transforms.repair._torch import one_thread
    from edgeopt.transforms.repair._torch_graph import TorchGraph, check
    from edgeopt.transforms.repair._torch_layers import Uncovered
    from edgeopt.transforms.repair._training import RATE, STEPS_MOST, Training, identity

    model, given, action = fitting.model, fitting.reference, fitting.action
    with one_thread():
        try:
            student = TorchGraph(any_batch(model))
        except Uncovered as error:
            raise Refused(f"torch has no {error} here") from error
        found = check(student, model, fitting.feeds[:_CHECKED])
        if found:
            raise Refused(found)
        ends, between = heads(given, model), taps(given, model)
        folder = fitting.evidence.unfinished
        about = (to_bytes(model), to_bytes(given), action.bare().text.encode(), *_seen(fitting))
        name = "" if folder is None else identity(*about)
        training = Training(
            student=student,
            teacher=Teacher(any_batch(given), [*(head.name for head in ends), *between]),
            ends=ends,
            between=between,
            feeds=fitting.feeds,
            seconds=float(action.get("seconds")),
            clock_s=fitting.evidence.patience_s,
            kind=fitting.evidence.kind,
            steps_most=int(action.get("steps", STEPS_MOST)),
            tell=fitting.evidence.tell,
            kept=None if folder is None else folder / f"distil-{name}.state",
            rate=_CODED_RATE if student.is_coded else RATE,
        )
        if training.run() >= 1.0:
            raise Refused(training.in_vain)
    for weight, array in student.initializers().items():
        fitting.constants.put(model.graph.initializers[weight], array)


def _seen(fitting: Fitting) -> Iterator[bytes]:
    """What tells samples from others: how many there are, the first and the last."""
    yield str(len(fitting.feeds)).encode()
    for feed in (fitting.feeds[0], fitting.feeds[-1]):
        yield from (array.tobytes() for array in feed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Distil(Repair):
    """A repair that trains; offered where torch is there and the study has time for it.

    Args:
        trains: Tells trainings from other repairs.
    """

    trains: bool = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action, which says its price."""
        able = offer.data and offer.distil_s >= _LEAST_SECONDS and is_installed()
        if not able or not self.able(model.graph):
            return ()
        seconds = float(round(offer.distil_s))
        made = Action.of(
            self.name, "*", version=self.version, samples=self.samples, seconds=seconds
        )
        return (made,)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """As every repair; a replay with its artifact needs no torch."""
        held = action.artifact("constants")
        stored = None if held is None else evidence.recall(held)
        if stored is None and not is_installed():
            return Rejection(
                reason="torch is not installed, or pytorch-optimizer: pip install 'edgeopt[rl]'"
            )
        # Not super(): dataclasses with slots are made anew, and it would not find its class.
        return Repair.apply(self, editor, action, evidence)
