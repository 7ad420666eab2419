"""What lies where in a model with bodies: kept current edit by edit, it is as if found anew."""

import onnx_ir as ir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.graph import bodies
from edgeopt.graph.editor import Editor, new_node
from edgeopt.graph.places import Places
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from tests.transforms.nested_nets import Pick, nested, random_nest

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def as_if_new(editor: Editor) -> None:
    """All answers are those of somebody who never saw the model before."""
    model, places = editor.model, editor.places
    assert list(places.around.items()) == list(bodies.parents(model).items())
    fresh = Places(model)
    assert {n: set(v) for n, v in places.made.items()} == {n: set(v) for n, v in fresh.made.items()}
    for name in places.made:
        assert places.maker(name) is bodies.maker(model, name)
    assert (places.out_of_sight() is None) == (bodies.out_of_sight(model) is None)
    live = {model.graph, *places.around}
    for graph in live:
        for node in graph:
            for value in node.outputs:
                assert all(user.graph in live for user, _ in value.uses())


def edit(editor: Editor, pick: Pick) -> None:
    """One edit of a random kind at a random node, which need not make sense."""
    every = [node for graph in (editor.model.graph, *editor.bodies) for node in graph]
    if not every:
        return
    node = every[pick(len(every))]
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    inner, output, name = editor.inside(graph), node.outputs[0], f"made{pick(99)}"
    other = every[pick(len(every))].outputs[0]
    match pick(9):
        case 0:
            inner.insert([new_node("Relu", [other], output=name)], before=node)
        case 1:
            inner.insert_after([new_node("Abs", [output], output=name)], after=node)
        case 2:
            inner.append([new_node("Neg", [output], output=name)])
        case 3:
            inner.set_input(node, pick(len(node.inputs) + 1), other)
        case 4 if not output.is_graph_output():
            inner.replace_uses(output, graph.inputs[0] if graph.inputs else other)
            if not output.uses():
                inner.remove_dead([node])
        case 5 if other is not output:
            made = new_node("Tanh", [other], output=name)
            inner.insert([made], before=node)
            inner.replace_value(output, made.outputs[0])
        case 6 if other is not output and not other.is_graph_output():
            inner.replace_value(output, other)
        case 7 if any(True for _ in bodies.bodies_in(node)):
            kept = next(iter(bodies.bodies_in(node)))
            attribute = next(a for a in node.attributes.values() if a.type in _KINDS)
            inner.set_attribute(node, attribute.name, None if pick(2) else ir.AttrGraph("b", kept))
        case _:
            for value in node.outputs:
                inner.replace_uses(value, other)
            if not any(value.uses() or value.is_graph_output() for value in node.outputs):
                inner.remove(node)


_KINDS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@QUICK
@given(st.data())
def test_random_edits_and_undos_keep_it_current(data: st.DataObject) -> None:
    """After each edit, and each edit taken back, in graphs nested in graphs."""

    def pick(below: int) -> int:
        return data.draw(st.integers(0, below - 1))

    editor = Editor(graphs.as_graph(random_nest(pick)))
    before = to_bytes(editor.model)
    as_if_new(editor)
    marks = [editor.mark()]
    for _ in range(1 + pick(6)):
        edit(editor, pick)
        as_if_new(editor)
        marks.append(editor.mark())
        if pick(3) == 0:
            editor.undo(marks[pick(len(marks))])
            as_if_new(editor)
    editor.undo()
    as_if_new(editor)
    assert to_bytes(editor.model) == before


def test_bodies_of_a_removed_node_are_gone() -> None:
    """Their names make nothing any more, what only they read goes too, and undo brings it back."""
    editor = Editor(graphs.as_graph(nested()))
    before, names = to_bytes(editor.model), set(editor.places.made)
    chosen = editor.producer("if_y")
    assert chosen is not None
    assert editor.places.maker("deep_then") is not None
    editor.replace_uses(chosen.outputs[0], editor.graph.inputs[0])
    editor.remove_dead([chosen])
    assert editor.places.maker("deep_then") is None
    assert not editor.bodies
    assert [node.op_type for node in editor.graph] == ["Identity"]
    assert not editor.graph.initializers
    as_if_new(editor)
    editor.undo()
    assert set(editor.places.made) == names
    assert to_bytes(editor.model) == before
    as_if_new(editor)


def test_a_body_that_goes_with_its_attribute_uses_nothing() -> None:
    """Not even what its own node makes, which none should read there; undo lets it read again."""
    editor = Editor(graphs.as_graph(nested()))
    chosen = editor.producer("if_y")
    assert chosen is not None
    body = next(iter(bodies.bodies_in(chosen)))
    name = next(a.name for a in chosen.attributes.values() if a.type in _KINDS)
    made = new_node("Relu", [chosen.outputs[0]], output="made")
    editor.inside(body).insert([made], before=body[0])
    before = to_bytes(editor.model)
    mark = editor.mark()
    editor.set_attribute(chosen, name, None)
    as_if_new(editor)
    editor.undo(mark)
    as_if_new(editor)
    assert to_bytes(editor.model) == before


def test_another_model_has_other_places() -> None:
    """A model that is put in whole is looked at anew, and the old one again when it is back."""
    editor = Editor(graphs.as_graph(nested()))
    assert editor.producer("first") is not None
    editor.replace_model(graphs.as_graph(graphs.conv_chain()))
    assert editor.producer("first") is None
    as_if_new(editor)
    editor.undo()
    assert editor.producer("first") is not None
    as_if_new(editor)


def test_what_comes_behind_a_node_is_known_without_a_walk() -> None:
    """Removed and put back at its place, whatever stands beside it."""
    editor = Editor(graphs.as_graph(graphs.residual()))
    for place in range(len(editor.graph)):
        for _ in range(2):
            node = editor.graph[place]
            editor.append([new_node("Relu", [node.inputs[0]], output=f"more{place}")])
            editor.insert([new_node("Abs", [node.inputs[0]], output=f"less{place}")], before=node)
            order, mark = list(editor.graph), editor.mark()
            for each in order[place : place + 3]:
                for value in each.outputs:
                    editor.replace_uses(value, editor.graph.inputs[0])
                if not any(value.is_graph_output() for value in each.outputs):
                    editor.remove(each)
            editor.undo(mark)
            assert list(editor.graph) == order
