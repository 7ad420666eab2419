"""silero-vad, whose weights all lie in branches: as it is, and at one sampling rate."""

import onnx_ir as ir
import pytest

from edgeopt.api import zoo
from edgeopt.data.read import read_data
from edgeopt.graph.check import check
from edgeopt.graph.read import read_model
from edgeopt.testing.transform_exam import NoEvidence, offer
from edgeopt.transforms.base import EXACT, Offer
from edgeopt.transforms.replay import Built, Workshop
from edgeopt.transforms.space import GraphSpace


def _operators(graph: ir.Model) -> list[str]:
    return [node.op_type for node in graph.graph.all_nodes()]


def _exact(space: GraphSpace) -> Built:
    """All exact transforms on, proven by the runtime on real inputs."""
    codes = [int(choice.family in EXACT) for choice in space.choices]
    built = space.workshop.build(space.decode(codes))
    space.workshop.verify(built)
    return built


def _silero(offered: Offer) -> GraphSpace:
    """silero-vad: five nodes, and a network a sampling rate inside two bodies."""
    files = zoo.get("silero-vad")
    model = read_model(files.model)
    data = read_data(str(files.data), model).search
    workshop = Workshop(model, evidence=NoEvidence(), opset_ceiling=21, feed=data.feeds[0])
    return GraphSpace(workshop, offered)


@pytest.mark.zoo
def test_silero_as_it_is() -> None:
    """Ten Ifs are settled, and the LSTM of either sampling rate can be quantized."""
    space = _silero(offer())
    graph = space.workshop.normalized
    assert graph.opset_imports[""] == 21
    assert _operators(graph).count("If") == 15
    assert _operators(graph).count("LSTM") == 2
    listed = [c for c in space.choices if c.family == "quantize"]
    assert [c.labels for c in listed] == [("off", "dynamic_lstm")] * 2
    _exact(space)
    actions = [action for c in listed for action in c.alternatives[1]]
    built = space.workshop.build(space.workshop.recipe(actions))
    assert _operators(built.graph).count("DynamicQuantizeLSTM") == 2
    check(built.graph)


@pytest.mark.zoo
def test_silero_at_one_sampling_rate() -> None:
    """With the rate and the shapes frozen no If is left, and convolutions become sites."""
    shapes = {"input": (1, 576), "state": (2, 1, 128)}
    space = _silero(offer(values={"sr": 16000}, freeze=shapes))
    built = _exact(space)
    assert "If" not in _operators(built.graph)
    assert [value.name for value in built.graph.graph.inputs] == ["input", "state", "sr"]
    names = [c.labels[1] for c in space.choices if c.family == "quantize"]
    assert names.count("static_qdq") == 6
