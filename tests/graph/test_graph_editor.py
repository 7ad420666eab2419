"""The editor: whatever was done can be undone to the byte."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.graph.editor import Editor, array_of, new_node, sole_user
from edgeopt.graph.normalize import split_shared
from edgeopt.graph.runtime import Session
from edgeopt.graph.write import to_bytes
from edgeopt.testing import graphs
from edgeopt.testing.random_graphs import networks

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
EDITS = (
    "bypass",
    "insert",
    "append",
    "attribute",
    "rewire",
    "replace",
    "constant",
    "shape",
    "dead",
)


def edit(editor: Editor, kind: str, number: int) -> None:
    """One edit of a kind, at a place that the number chooses; nothing where it does not fit."""
    nodes = list(editor.graph)
    if not nodes:
        return
    node = nodes[number % len(nodes)]
    output = node.outputs[0]
    first = node.inputs[0]
    assert first is not None
    if kind == "bypass" and not output.is_graph_output():
        editor.replace_uses(output, first)
        editor.remove(node)
    elif kind == "insert":
        made = new_node("Relu", [first], output=f"{output.name}/in{number}", like=first)
        editor.insert([made], before=node)
        editor.set_input(node, 0, made.outputs[0])
    elif kind == "append":
        editor.append([new_node("Abs", [output], output=f"{output.name}/abs{number}", like=output)])
    elif kind == "attribute":
        editor.set_attribute(node, "alpha", 0.5 if number % 2 else None)
        editor.set_attribute(node, "strides", [1, 1])
    elif kind == "rewire":
        editor.set_input(node, len(node.inputs) + number % 2, editor.graph.inputs[0])
    elif kind == "replace":
        made = new_node("Neg", [first], output=f"{output.name}/neg{number}")
        editor.insert([made], before=node)
        editor.replace_value(output, made.outputs[0])
        editor.remove_dead([node])
    elif kind == "constant":
        editor.initializer(f"constant{number}", np.full((2,), number, np.float32))
    elif kind == "shape":
        editor.set_shape(output, ir.Shape([number, "M"]))
    elif kind == "dead" and not output.is_graph_output():
        editor.replace_uses(output, first)
        editor.remove_dead([node])


@QUICK
@given(
    model=networks(),
    edits=st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 99)), max_size=15),
)
def test_undone_edits_leave_the_same_bytes(
    model: onnx.ModelProto, edits: list[tuple[str, int]]
) -> None:
    """Any edits, taken back in reverse, restore the serialised model byte for byte."""
    editor = Editor(graphs.as_graph(model))
    before = to_bytes(editor.model)
    for kind, number in edits:
        edit(editor, kind, number)
    editor.undo()
    assert to_bytes(editor.model) == before


@QUICK
@given(
    model=networks(),
    edits=st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 99)), min_size=2, max_size=10),
)
def test_a_mark_is_a_point_to_go_back_to(
    model: onnx.ModelProto, edits: list[tuple[str, int]]
) -> None:
    """Undoing to a mark restores the bytes of that moment, not of the start."""
    editor = Editor(graphs.as_graph(model))
    half = len(edits) // 2
    for kind, number in edits[:half]:
        edit(editor, kind, number)
    mark, middle = editor.mark(), to_bytes(editor.model)
    for kind, number in edits[half:]:
        edit(editor, kind, number)
    editor.undo(mark)
    assert to_bytes(editor.model) == middle


def test_a_deleted_attribute_comes_back_to_its_place() -> None:
    """The order of attributes is part of the bytes."""
    editor = Editor(graphs.as_graph(graphs.gemm_chain()))
    node = next(iter(editor.graph))
    editor.set_attribute(node, "alpha", 0.5)
    editor.set_attribute(node, "beta", 2.0)
    mark, before = editor.mark(), to_bytes(editor.model)
    editor.set_attribute(node, "alpha", None)
    editor.undo(mark)
    assert to_bytes(editor.model) == before


def test_replace_value_keeps_the_name_and_the_output() -> None:
    """The new producer has the old value's name, also where it is a graph output."""
    model = graphs.gemm_chain()
    editor = Editor(graphs.as_graph(model))
    old = editor.graph.outputs[0]
    node = old.producer()
    assert node is not None
    made = new_node("Identity", [node.inputs[0]], output="other")
    editor.insert([made], before=node)
    editor.replace_value(old, made.outputs[0])
    editor.remove_dead([node])
    assert [value.name for value in editor.graph.outputs] == ["logits"]
    assert editor.graph.outputs[0].producer() is made
    assert "logits.w" not in editor.graph.initializers
    feed = graphs.random_feeds(model)[0]
    assert Session(to_bytes(editor.model)).run(feed)["logits"].shape == (2, 12)


def test_remove_dead_goes_up_to_what_is_used() -> None:
    """Nodes and constants behind a dead node go with it; what others use stays."""
    editor = Editor(graphs.as_graph(graphs.residual()))
    total = next(node for node in editor.graph if node.op_type == "Add")
    first = total.inputs[1]
    assert first is not None
    editor.replace_uses(total.outputs[0], first)
    editor.remove_dead([total])
    assert [node.op_type for node in editor.graph] == ["Conv", "Relu"]
    assert sorted(editor.graph.initializers) == ["stem.b", "stem.w"]


def test_a_used_node_is_not_removed() -> None:
    """Removing what others read is an error, and changes nothing."""
    editor = Editor(graphs.as_graph(graphs.residual()))
    before = to_bytes(editor.model)
    with pytest.raises(ValueError, match="stem"):
        editor.remove(next(iter(editor.graph)))
    assert to_bytes(editor.model) == before


def test_an_equal_constant_is_shared_and_another_one_refused() -> None:
    """The same name and value is the same constant; another value under it is an error."""
    editor = Editor(graphs.as_graph(graphs.conv_chain()))
    first = editor.initializer("c", np.ones(3, np.float32))
    assert editor.initializer("c", np.ones(3, np.float32)) is first
    with pytest.raises(ValueError, match="another value"):
        editor.initializer("c", np.zeros(3, np.float32))


def test_edits_inside_a_branch_are_undone() -> None:
    """Nodes of subgraphs are edited and restored like those of the main graph."""
    editor = Editor(graphs.as_graph(graphs.if_model()))
    before = to_bytes(editor.model)
    branch = next(iter(editor.graph.subgraphs()))
    node = next(iter(branch))
    output = node.outputs[0]
    made = new_node("Relu", [editor.graph.inputs[0]], output="inner", like=editor.graph.inputs[0])
    editor.insert([made], before=node)
    editor.set_input(node, 0, made.outputs[0])
    editor.replace_uses(output, made.outputs[0])
    assert to_bytes(editor.model) != before
    editor.undo()
    assert to_bytes(editor.model) == before


def test_a_whole_model_can_be_put_in_and_taken_out() -> None:
    """replace_model is an edit like any other."""
    editor = Editor(graphs.as_graph(graphs.conv_chain()))
    first = editor.model
    editor.replace_model(graphs.as_graph(graphs.residual()))
    assert editor.model is not first
    editor.undo()
    assert editor.model is first


def shared_weight() -> onnx.ModelProto:
    """Two products with one weight."""
    b = graphs.Builder()
    b.weight("w", 4, 4)
    b.node("MatMul", ["x", "w"], "h")
    b.node("MatMul", ["h", "w"], "y")
    return b.model([("x", "float32", ("N", 4))], [("y", "float32", ("N", 4))])


def test_split_shared_gives_one_user_its_own_copy() -> None:
    """Afterwards each user has a weight, the outputs are equal, and undo restores the bytes."""
    model = shared_weight()
    editor = Editor(graphs.as_graph(model))
    before = to_bytes(editor.model)
    shared = editor.graph.initializers["w"]
    second = list(editor.graph)[1]
    own = split_shared(editor, shared, second)
    assert own is not shared
    assert second.inputs[1] is own
    assert split_shared(editor, own, second) is own
    feed = graphs.random_feeds(model)[0]
    np.testing.assert_array_equal(
        Session(to_bytes(editor.model)).run(feed)["y"], Session(before).run(feed)["y"]
    )
    editor.undo()
    assert to_bytes(editor.model) == before


def test_split_shared_refuses_what_is_no_constant() -> None:
    """An activation, or a node that does not read the value, is an error."""
    editor = Editor(graphs.as_graph(shared_weight()))
    first, second = editor.graph
    with pytest.raises(ValueError, match="no constant"):
        split_shared(editor, first.outputs[0], second)


def test_small_questions() -> None:
    """array_of gives constants only; sole_user only where nobody else reads and it is no output."""
    graph = graphs.as_graph(graphs.residual()).graph
    stem = next(iter(graph))
    weight = array_of(stem.inputs[1])
    assert weight is not None
    assert weight.shape == (8, 3, 3, 3)
    assert array_of(stem.inputs[0]) is None
    assert array_of(None) is None
    assert sole_user(stem.outputs[0]) is None
    assert sole_user(graph.outputs[0]) is None
    user = sole_user(graph.inputs[0])
    assert user is stem


def test_a_new_value_never_takes_the_name_of_another() -> None:
    """A rule that acts twice around one site gets a longer name the second time, its node too."""
    editor = Editor(graphs.as_graph(graphs.residual()))
    before = to_bytes(editor.model)
    stem = next(iter(editor.graph))
    made = [new_node("Neg", [stem.outputs[0]], output="twice") for _ in range(3)]
    for node in made:
        editor.insert_after([node], after=stem)
    assert [node.outputs[0].name for node in made] == ["twice", "twice+", "twice++"]
    assert [node.name for node in made] == ["twice/Neg", "twice+/Neg", "twice++/Neg"]
    assert editor.producer("twice+") is made[1]
    editor.undo()
    assert to_bytes(editor.model) == before
