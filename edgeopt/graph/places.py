"""`Places`: which graph of a model makes which value, without a look at every node each time.

The editor tells of each edit and each edit taken back. Names are kept current one by one. What
lies in which body is found anew, at the next question, only where a node with bodies came or went:
bodies of a removed If belong to no model, though its node still holds them.
"""

from collections.abc import Mapping

import onnx_ir as ir

from edgeopt.graph.bodies import bodies_in, foreign, out_of_sight, parents, unseen


class Places:
    """What lies where in one model, as it is now.

    Args:
        model: Whose nodes come, go and change their names only as this is told.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._around: dict[ir.Graph, ir.Graph] | None = None
        self._made: dict[str, dict[ir.Value, None]] | None = None
        self._sound = False
        self._nodes: dict[ir.Node, None] = {}
        self._graphs: dict[ir.Graph, None] = {}

    @property
    def around(self) -> Mapping[ir.Graph, ir.Graph]:
        """The model's `parents`."""
        if self._around is None:
            self._around = parents(self._model)
        return self._around

    @property
    def made(self) -> Mapping[str, Mapping[ir.Value, None]]:
        """Name to the values of that name that nodes make: one, where names are unique."""
        if self._made is None:
            self._made = {}
            for graph in (self._model.graph, *self.around):
                for node in graph:
                    self._enter(node)
        return self._made

    def maker(self, name: str) -> ir.Graph | None:
        """As `bodies.maker`."""
        graphs = [node.graph for value in self.made.get(name, ()) if (node := value.producer())]
        if len(graphs) > 1:
            return next(g for g in (self._model.graph, *self.around) if g in graphs)
        return graphs[0] if graphs and isinstance(graphs[0], ir.Graph) else None

    def producer(self, name: str, graph: ir.Graph) -> ir.Node | None:
        """The first node of a graph that makes a value of that name."""
        makers = (value.producer() for value in self.made.get(name, ()))
        found = {node for node in makers if node is not None and node.graph is graph}
        if len(found) > 1:
            return next(node for node in graph if node in found)
        return next(iter(found), None)

    def out_of_sight(self) -> str | None:
        """As `bodies.out_of_sight`, but that of several values another may be named.

        Looked at are the nodes that changed since the last time when all was well.
        """
        lost = self._changed() if self._sound else out_of_sight(self._model)
        if lost is None:
            self._sound = True
            self._nodes.clear()
            self._graphs.clear()
        return lost

    def attached(self, node: ir.Node) -> None:
        """A node was put into a graph."""
        if any(True for _ in bodies_in(node)):
            self.forget()
            return
        if self._made is not None and self._lives(node.graph):
            self._enter(node)
        self.rewired(node)
        # It may have been in another graph before.
        for value in node.outputs:
            for user, _ in value.uses():
                self.rewired(user)

    def detached(self, node: ir.Node) -> None:
        """A node, whose outputs nobody reads, was taken out of its graph."""
        if any(True for _ in bodies_in(node)):
            self.forget()
        elif self._made is not None:
            for value in node.outputs:
                self._leave(value, value.name)

    def renamed(self, value: ir.Value, old: str | None) -> None:
        """A value has another name than before."""
        if self._made is not None and self._leave(value, old) and value.name:
            self._made.setdefault(value.name, {})[value] = None

    def rewired(self, node: ir.Node) -> None:
        """A node reads other values."""
        if self._sound:
            self._nodes[node] = None

    def returns(self, graph: ir.Graph) -> None:
        """A graph has other outputs."""
        if self._sound:
            self._graphs[graph] = None

    def forget(self) -> None:
        """Bodies came or went."""
        self._around = self._made = None
        self._sound = False
        self._nodes.clear()
        self._graphs.clear()

    def _enter(self, node: ir.Node) -> None:
        assert self._made is not None, "the caller made it"
        for value in node.outputs:
            if value.name:
                self._made.setdefault(value.name, {})[value] = None

    def _leave(self, value: ir.Value, name: str | None) -> bool:
        """Take a value out that stands under a name; False where it does not."""
        assert self._made is not None, "the caller asked"
        named = self._made.get(name or "", {})
        if value not in named:
            return False
        del named[value]
        if not named:
            del self._made[name or ""]
        return True

    def _lives(self, graph: object) -> bool:
        return graph is self._model.graph or graph in self.around

    def _changed(self) -> str | None:
        around = self.around
        for graph in self._graphs if around else ():
            value = foreign(graph) if self._lives(graph) else None
            if value is not None:
                return value.name
        for node in self._nodes if around else ():
            graph = node.graph
            value = (
                unseen(node, graph, around)
                if isinstance(graph, ir.Graph) and self._lives(graph)
                else None
            )
            if value is not None:
                return value.name
        return None
