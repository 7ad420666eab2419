"""Einsum as a product of matrices, on random equations."""

from math import prod

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, ValueInfoProto, helper

from edgeopt.testing.rule_mutants import prove_mutant

KINDS = ("batch", "row", "inner", "column")


@st.composite
def equations(draw: st.DrawFn) -> tuple[str, str, str, dict[str, int]]:
    """Letters of two operands and the result in any order, and the size of each letter."""
    letters = iter("abcdefghijkl")
    groups = {
        kind: [next(letters) for _ in range(draw(st.integers(kind == "inner", 2)))]
        for kind in KINDS
    }
    sizes = {letter: draw(st.integers(1, 3)) for group in groups.values() for letter in group}
    left = draw(st.permutations(groups["batch"] + groups["row"] + groups["inner"]))
    right = draw(st.permutations(groups["batch"] + groups["inner"] + groups["column"]))
    made = draw(st.permutations(groups["batch"] + groups["row"] + groups["column"]))
    assume(groups["row"] or groups["column"])
    return "".join(left), "".join(right), "".join(made), sizes


@settings(max_examples=25, deadline=None)
@given(equation=equations(), held=st.sampled_from(("", "x", "w")), free=st.booleans())
def test_random_equations(
    equation: tuple[str, str, str, dict[str, int]], held: str, free: bool
) -> None:
    """Wherever it fires the outputs stay; it fires on every equation whose sizes are known."""
    left, right, made, sizes = equation
    values = {"x": left, "w": right}
    node = helper.make_node(
        "Einsum", ["x", "w"], ["y"], name="e", equation=f"{left},{right}->{made}"
    )
    # A letter of a constant has the size that it has there, whatever the other operand says.
    held_letters = values.get(held, "")
    loose = made[:1] if free and made[:1] not in held_letters else ""
    known = {letter: size for letter, size in sizes.items() if letter != loose}
    inputs: list[ValueInfoProto] = []
    constants: list[TensorProto] = []
    for name, letters in values.items():
        shape = [sizes[letter] for letter in letters]
        if name == held:
            numbers = [float(i % 5 - 2) for i in range(prod(shape))]
            constants.append(helper.make_tensor(name, TensorProto.FLOAT, shape, numbers))
        else:
            told = [known.get(letter, letter.upper()) for letter in letters]
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, told))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "einsum", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    counts = prove_mutant(model, ["einsum_to_matmul"])
    assert counts is not None
    assert free or counts["einsum_to_matmul"] == 1
