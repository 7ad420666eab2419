"""`Verifier`: exact actions are compared with the user's file, and the guilty one is named."""

from collections.abc import Callable, Sequence

import onnx_ir as ir

from edgeopt.core.action import Action
from edgeopt.core.data import Feed
from edgeopt.core.model import Model
from edgeopt.errors import WrongOutputError
from edgeopt.graph.equivalence import Difference, Reference
from edgeopt.graph.read import open_graph
from edgeopt.graph.runtime import synthetic_feed
from edgeopt.transforms.base import Evidence
from edgeopt.transforms.stages import dropped_outputs

_FEEDS = 4
Actions = tuple[Action, ...]
GraphOf = Callable[[Actions], ir.Model]


class Verifier:
    """Compares graphs after exact actions with the baseline; each sequence of actions once.

    Args:
        model: The baseline, as the user gave it.
        evidence: Gives real feeds where there is data.
        feed: Used where it gives none; without one, noise of fitting shapes.
    """

    def __init__(self, model: Model, evidence: Evidence, feed: Feed | None) -> None:
        self._model = model
        self._evidence = evidence
        self._feed = feed
        self._reference: Reference | None = None
        self._found: dict[Actions, Difference] = {}
        self._guilty: dict[Actions, int] = {}

    def check(self, actions: Actions, graph_of: GraphOf) -> None:
        """Prove that the graph after the actions computes what the baseline computes.

        Args:
            actions: Exact ones, in order; none stands for normalisation alone.
            graph_of: The graph after the first so many actions.

        Raises:
            WrongOutputError: It computes something else.
            RuntimeFailure: The runtime does not take one of the two.
        """
        if self._differs(actions, graph_of) is None:
            return
        if actions not in self._guilty:
            self._guilty[actions] = self._first_wrong(actions, graph_of)
        wrong = self._guilty[actions]
        difference = self._found[actions[:wrong]]
        guilty = actions[wrong - 1].text if wrong else "normalisation"
        raise WrongOutputError(
            f"the outputs change although they must not: {difference.reason}",
            where=guilty,
            hint="leave this action out; please report it with the model",
        )

    def _differs(self, actions: Actions, graph_of: GraphOf) -> Difference | None:
        if actions not in self._found:
            made = graph_of(actions)
            gone = dropped_outputs(actions)
            self._found[actions] = self._baseline().compare(made, without=gone)
        found = self._found[actions]
        return None if found.ok else found

    def _first_wrong(self, actions: Actions, graph_of: GraphOf) -> int:
        """The length of the shortest wrong prefix, by bisection."""
        if self._differs((), graph_of):
            return 0
        good, wrong = 0, len(actions)
        while wrong - good > 1:
            middle = (good + wrong) // 2
            if self._differs(actions[:middle], graph_of):
                wrong = middle
            else:
                good = middle
        return wrong

    def _baseline(self) -> Reference:
        if self._reference is None:
            graph = open_graph(self._model)
            self._reference = Reference.of(graph, self._feeds(graph))
        return self._reference

    def _feeds(self, graph: ir.Model) -> Sequence[Feed]:
        given = self._evidence.feeds(_FEEDS)
        if given:
            return given
        return (self._feed,) if self._feed is not None else (synthetic_feed(graph),)
