"""Train a pruned net for some minutes to say what the given model says, on samples without labels.

The graph itself is run by torch (extra `rl`) and differentiated; the given model beside it is the
teacher. Samples are the calibration part, broadened by built-in changes anew at every step, since
breadth decides: on narrow samples a net learns to be right on those alone. With `int8` weights and
activations are rounded on the way, for nets that are quantized next. The weights go back into the
initializers that they came from, as an artifact of the recipe. It is the second step: least
squares first, and gates held at their mean lose nothing any more that a minute of it does not
bring back.

A site says its price: `seconds` of one core; a recipe may also end it after some `steps`. It must
not be used where an operator has no torch form here; the refusal names it.
"""

from dataclasses import dataclass

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.graph.editor import Editor
from edgeopt.graph.write import to_bytes
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.repair._repair import Fitting, Refused, Repair
from edgeopt.transforms.repair._torch import is_installed
from edgeopt.transforms.repair._weighted import weighted

SAMPLES = 4096
_CHECKED = 2
_LEAST_SECONDS = 10.0


def _able(graph: ir.Graph) -> bool:
    return any(weighted(node) is not None for node in graph)


def _distil(fitting: Fitting) -> None:
    """Train, and put the weights that came out."""
    # torch takes seconds to import, and only the extra `rl` has it.
    from edgeopt.transforms.repair._loss import heads, taps
    from edgeopt.transforms.repair._teacher import Teacher
    from edgeopt.transforms.repair._torch import one_thread
    from edgeopt.transforms.repair._torch_graph import TorchGraph, check
    from edgeopt.transforms.repair._torch_layers import Uncovered
    from edgeopt.transforms.repair._training import STEPS_MOST, Training, identity

    model, given, action = fitting.model, fitting.reference, fitting.action
    with one_thread():
        try:
            student = TorchGraph(model)
        except Uncovered as error:
            raise Refused(f"torch has no {error} here") from error
        some = fitting.feeds[:_CHECKED]
        found = check(student, model, some)
        if found:
            raise Refused(found)
        if bool(action.get("int8", False)):
            student = TorchGraph(model, fake=True)
        ends, between = heads(given), taps(given, model)
        folder = fitting.evidence.unfinished
        name = "" if folder is None else identity(to_bytes(model), action.bare().text.encode())
        Training(
            student=student,
            teacher=Teacher(given, [*(head.name for head in ends), *between]),
            ends=ends,
            between=between,
            feeds=fitting.feeds,
            seconds=float(action.get("seconds")),
            steps_most=int(action.get("steps", STEPS_MOST)),
            tell=fitting.evidence.tell,
            kept=None if folder is None else folder / f"distil-{name}.state",
        ).run()
    for weight, array in student.arrays().items():
        fitting.constants.put(model.graph.initializers[weight], array)


@dataclass(frozen=True, slots=True, kw_only=True)
class Distil(Repair):
    """A repair that trains; offered where torch is there and the study has time for it."""

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """Training in float; where the device has integer kernels, also with rounding."""
        able = offer.data and offer.distil_s >= _LEAST_SECONDS and is_installed()
        if not able or not self.able(model.graph):
            return ()
        plain = Action.of(
            self.name,
            "*",
            version=self.version,
            samples=self.samples,
            seconds=float(round(offer.distil_s)),
        )
        if offer.profile.quantization is None:
            return (plain,)
        rounded = Action.of(
            self.name, "*", version=self.version, **dict(plain.parameters), int8=True
        )
        return plain, rounded

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """As every repair; a replay with its artifact needs no torch."""
        held = action.artifact("constants")
        stored = None if held is None else evidence.recall(held)
        if stored is None and not is_installed():
            return Rejection(reason="torch is not installed: pip install 'edgeopt[rl]'")
        # Not super(): dataclasses with slots are made anew, and it would not find its class.
        return Repair.apply(self, editor, action, evidence)


PLUGIN = Distil(name="distil", able=_able, fit=_distil, on_float=True, costly=True, samples=SAMPLES)
