"""A Loop or Scan that always runs a few times becomes so many copies of its body.

    Loop(n, true, s, body)  =  body(n - 1, ... body(1, body(0, s)))
    Scan(s, x, body)        =  body(... body(body(s, x[0]), x[1]) ..., x[n - 1])

What every round puts out is joined by Concat. The runtime runs a body as a graph of its own, round
by round, and moves nothing into it or out of it; copies are optimized with the rest. The number of
a round is a constant in its copy: what follows from it is computed, and an If that it decides
becomes the branch taken. Weights of the body are stored once.

It must not fire where the number of rounds is not constant (for Scan: not a known size) or zero,
where the body can end the Loop, on more than 32 rounds or 512 nodes, where bodies inside the body
hold weights of their own (copies of them would not share them), on random operators and those of
other domains (they may keep a state from one round to the next), and below operator set 13.
Imperative, since a pattern has no bodies.
"""

from collections.abc import Iterator

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.errors import ModelError
from edgeopt.graph.bodies import inner_nodes
from edgeopt.graph.branches import settle_branches
from edgeopt.graph.editor import Editor
from edgeopt.graph.folding import GROWTH_BYTES, drop_unused, fold_constants
from edgeopt.graph.loops import trips, unroll
from edgeopt.graph.read import sort
from edgeopt.graph.shapes import infer_shapes
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.local_rule import opset_of, refuse

NAME = "unroll_loop"
_LOWEST = 13
_MOST_ROUNDS, _MOST_NODES = 32, 512


class UnrollLoop:
    """Exact; finds loops at every depth, also those in branches."""

    version = 1
    needs_data = False
    whole_model = False
    main_graph_only = True

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        """One action a loop whose rounds are few and known."""
        del offer
        if opset_of(model) < _LOWEST:
            return ()
        fits = (node for node in _loops(model) if isinstance(_rounds(node), int))
        return tuple(Action.of(NAME, _site(node)) for node in fits)

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        """Put copies in the place of the loop, and compute what follows from their numbers."""
        del evidence
        if opset_of(editor.model) < _LOWEST:
            return Rejection(reason=f"{NAME} writes operators of opset {_LOWEST}")
        work = editor.model.clone()
        node = next((each for each in _loops(work) if _site(each) == action.site), None)
        if node is None:
            return Rejection(reason=f"no Loop or Scan computes {action.site!r}")
        count = _rounds(node)
        if isinstance(count, Rejection):
            return count
        unroll(work, node, count)
        try:
            _simplify(work)
        except ModelError as error:
            return Rejection(reason=f"the copies contradict each other: {error.what}")
        editor.replace_model(work)
        return action


def _loops(model: ir.Model) -> Iterator[ir.Node]:
    for node in model.graph.all_nodes():
        if node.op_type in ("Loop", "Scan") and not node.domain and "body" in node.attributes:
            yield node


def _site(node: ir.Node) -> str:
    return next((value.name for value in node.outputs if value.name), "")


def _rounds(node: ir.Node) -> int | Rejection:
    count = trips(node)
    if isinstance(count, str):
        return refuse(count, node)
    nodes = sum(1 for _ in inner_nodes(node))
    if count > _MOST_ROUNDS or count * nodes > _MOST_NODES:
        return refuse(f"{count} copies of {nodes} nodes are too many", node)
    body = node.attributes["body"].as_graph()
    deeper = (v.const_value for part in body.subgraphs() for v in part.initializers.values())
    held = sum(tensor.nbytes for tensor in deeper if tensor is not None)
    if count * held > GROWTH_BYTES:
        return refuse("bodies inside the body hold weights, which copies would not share", node)
    return count


def _simplify(model: ir.Model) -> None:
    while fold_constants(model):
        pass
    settle_branches(model)
    drop_unused(model)
    sort(model)
    infer_shapes(model)


PLUGIN = UnrollLoop()
