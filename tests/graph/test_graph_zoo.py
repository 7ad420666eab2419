"""Real models through the graph room: normalized, compared on their own data, written, reopened."""

from pathlib import Path

import pytest

from edgeopt.api import zoo
from edgeopt.core.data import Feed
from edgeopt.core.model import Model
from edgeopt.data.read import read_data
from edgeopt.graph.check import check
from edgeopt.graph.cost import static_cost
from edgeopt.graph.equivalence import Reference
from edgeopt.graph.normalize import normalize
from edgeopt.graph.read import open_graph, read_model
from edgeopt.graph.structure import structure_digest, weights_digest
from edgeopt.graph.write import to_bytes, write_model

FETCHED = [
    entry.name
    for entry in zoo.list_models()
    if entry.source.registry != zoo.SHIPPED and entry.size_bytes < 200_000_000
]


def opened(name: str, folder: Path | None = None) -> tuple[Model, list[Feed]]:
    """A model of the zoo and some feeds of its data."""
    files = zoo.get(name, folder) if folder else zoo.get(name)
    model = read_model(files.model)
    part = read_data(str(files.data), model).search
    return model, [part.feeds[index] for index in range(3)]


def examine(model: Model, feeds: list[Feed], folder: Path) -> None:
    """The promises of normalization and of writing, on one model."""
    graph = open_graph(model)
    before = to_bytes(graph)
    found = normalize(graph, feed=feeds[0])
    assert to_bytes(graph) == before
    check(found)
    difference = Reference.of(graph, feeds).compare(found)
    assert difference.ok, difference.reason
    names = [node.name for node in found.graph.all_nodes()]
    assert len(set(names)) == len(names)
    assert len(to_bytes(found)) < 1.05 * model.size_bytes + 20_000
    written = write_model(found, folder / "written.onnx", external=True)
    assert [spec.name for spec in written.inputs] == [spec.name for spec in model.inputs]
    assert [spec.name for spec in written.outputs] == [spec.name for spec in model.outputs]
    again = open_graph(written)
    assert structure_digest(again) == structure_digest(found)
    assert weights_digest(again) == weights_digest(found)
    assert static_cost(found)["macs"] > 0


@pytest.mark.parametrize("name", ["digits", "segmentation"])
def test_a_committed_network(name: str, tmp_path: Path) -> None:
    """The two small trained networks keep their function and their contract."""
    examine(*opened(name, tmp_path), tmp_path)


@pytest.mark.zoo
@pytest.mark.parametrize("name", FETCHED)
def test_a_fetched_model(name: str, tmp_path: Path) -> None:
    """Models with hundreds of constants, nested branches or echoed inputs do as well."""
    examine(*opened(name), tmp_path)
