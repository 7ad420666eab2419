"""Operator cost tables: keys, work, the roofline, and estimates of models that were left out."""

from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.estimate.cost_table import KEPT, CostTable, Profiled
from edgeopt.estimate.operators import Operator, Tensor, operators_of
from edgeopt.estimate.roofline import Roofline
from edgeopt.graph.cost import macs_of

SHAPES = st.lists(st.integers(0, 9), max_size=4).map(tuple)
TENSORS = st.builds(Tensor, dtype=st.sampled_from(["float", "int8"]), shape=SHAPES)


def operator(name: str, *inputs: tuple[int, ...], made: tuple[int, ...]) -> Operator:
    """A float operator without attributes."""
    tensors = tuple(Tensor(dtype="float", shape=shape) for shape in inputs)
    outputs = (Tensor(dtype="float", shape=made),)
    return Operator(operator=name, attributes="", inputs=tensors, outputs=outputs)


def relu(size: int) -> Operator:
    """A Relu of so many elements."""
    return operator("Relu", (size,), made=(size,))


def profiled(name: str, sizes: tuple[int, ...], second: float = 1e-6) -> Profiled:
    """A chain of Relus that takes a second for each element, and a tenth more as a whole."""
    operators = tuple((relu(size).key, size * second) for size in sizes)
    return Profiled(model=name, latency_s=1.1 * sum(sizes) * second, operators=operators)


@given(
    st.lists(TENSORS, max_size=3), st.lists(TENSORS, max_size=2), st.sampled_from(["", "?", "a"])
)
def test_a_key_says_everything(inputs: list[Tensor], outputs: list[Tensor], digest: str) -> None:
    """An operator is what its key is read as."""
    made = Operator(
        operator="com.microsoft:FusedConv",
        attributes=digest,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
    assert Operator.parse(made.key) == made


@pytest.mark.parametrize(
    ("name", "inputs", "made"),
    [
        ("Conv", [(1, 8, 9, 9), (4, 2, 3, 3)], (1, 4, 7, 7)),
        ("ConvTranspose", [(1, 8, 5, 5), (8, 3, 2, 2)], (1, 3, 10, 10)),
        ("MatMul", [(2, 3, 4, 5), (5, 6)], (2, 3, 4, 6)),
        ("Gemm", [(3, 5), (5, 7)], (3, 7)),
        ("LSTM", [(6, 2, 3), (1, 16, 3), (1, 16, 4)], (6, 1, 2, 4)),
    ],
)
def test_work_is_that_of_the_graph(
    name: str, inputs: list[tuple[int, ...]], made: tuple[int, ...]
) -> None:
    """Multiply-adds by an executed operator's shapes are those by the graph's."""
    values = [ir.Value(name=f"x{i}") for i in range(len(inputs))]
    node = ir.Node("", name, values, outputs=[ir.Value(name="y")])
    shapes = {f"x{i}": shape for i, shape in enumerate(inputs)} | {"y": made}
    found = operator(name, *inputs, made=made)
    assert found.macs == macs_of(node, shapes) > 0


def test_seen_operators_are_added() -> None:
    """The sum of the medians of what was profiled, times what a whole model takes over its sum."""
    table = CostTable(device="d", runtime="r").learned(profiled("a", (10, 20)))
    table = table.learned(profiled("b", (10, 40), 3e-6))
    found = table.estimate([relu(10), relu(40)])
    assert found.seconds == pytest.approx(1.1 * (20e-6 + 120e-6))
    assert (found.profiled, found.operators, found.unseen) == (1.0, 2, 0)


def test_a_roofline_answers_for_the_rest() -> None:
    """Bytes over the bandwidth, or multiply-adds over the rate of the kind, whichever is longer."""
    conv = operator("Conv", (1, 64, 9, 9), (64, 64, 1, 1), made=(1, 64, 9, 9))
    line = Roofline.fitted([(conv, conv.macs / 1e9), (relu(10**6), 8e6 / 2e9), (relu(1), 0.0)])
    assert line.seconds(relu(5 * 10**5)) == pytest.approx(2e-3, rel=0.01)
    more = operator("Conv", (1, 64, 18, 18), (64, 64, 1, 1), made=(1, 64, 18, 18))
    assert line.seconds(more) == pytest.approx(4 * conv.macs / 1e9, rel=0.01)
    thin = operator("Conv", (1, 1, 999, 999), (1, 1, 1, 1), made=(1, 1, 999, 999))
    assert line.seconds(thin) == pytest.approx(thin.moved_bytes / 2e9, rel=0.01)
    unknown = operator("Sort", (10**6,), made=(10**6,))
    assert line.seconds(unknown) == pytest.approx(4e-3, rel=0.01)


def test_agreement_leaves_out_what_is_estimated() -> None:
    """A model's own profile does not help it: of sizes never seen, the roofline has to tell."""
    table = CostTable(device="d", runtime="r")
    for index in range(1, 6):
        sizes = tuple(10**4 * index * k for k in (1, 7, 11, 13))
        table = table.learned(profiled(f"m{index}", sizes))
    found = table.agreement()
    assert found is not None
    assert found.models == 5
    assert found.rank_correlation == pytest.approx(1.0)
    assert found.error < 0.2
    together = table.agreement({f"m{index}": "one" for index in range(1, 6)})
    assert together is None


def test_a_table_lasts(tmp_path: Path) -> None:
    """It is read as it was written; a file of another version or a broken one is none."""
    table = CostTable(device="d", runtime="r", optimization="basic").learned(profiled("a", (1, 2)))
    path = tmp_path / "costs" / "t.json"
    table.write(path)
    assert CostTable.read(path) == table
    path.write_text(path.read_text().replace('"format":1', '"format":99'))
    assert CostTable.read(path) is None
    path.write_text("{")
    assert CostTable.read(path) is None
    assert CostTable.read(tmp_path / "none.json") is None


def test_old_profiles_go() -> None:
    """A file that is profiled again counts once, and the table keeps the latest."""
    table = CostTable(device="d", runtime="r").learned(profiled("a", (5,)))
    table = table.learned(replace(profiled("a", (5,)), latency_s=9.0))
    assert [p.latency_s for p in table.profiles] == [9.0]
    for index in range(KEPT):
        table = table.learned(profiled(f"m{index}", (5,)))
    assert len(table.profiles) == KEPT
    assert "a" not in {p.model for p in table.profiles}


def test_bodies_count_once_and_hidden_shapes_not() -> None:
    """An If is what its branches take; a profile without shapes says nothing."""
    node = {"op": "Relu", "time_s": 1.0, "inputs": ["float"], "outputs": ["float"]}
    shaped = {**node, "input_shapes": [[2]], "output_shapes": [[2]], "domain": "", "attributes": ""}
    told = operators_of([node, shaped, {**shaped, "op": "If"}])
    assert told == [(relu(2), 1.0)]
