"""A plug-in that fails on a model ends no study: it is left out, and somebody is told."""

import onnx_ir as ir
import pytest

from edgeopt.core.action import Action
from edgeopt.errors import DataError, PluginFaultWarning
from edgeopt.graph.editor import Editor
from edgeopt.testing.graphs import conv_chain
from edgeopt.testing.transform_exam import NoEvidence, offer, opened
from edgeopt.transforms.base import Evidence, Offer, Rejection
from edgeopt.transforms.bodies import apply_at, sites_of

ACTION = Action(transform="rewrite:broken", site="conv1", version=1)


class Broken:
    """One good site, and whatever is given to it is raised."""

    version, needs_data, whole_model = 1, False, False

    def __init__(self, error: Exception) -> None:
        self._error = error

    def sites(self, model: ir.Model, offer: Offer) -> tuple[Action, ...]:
        raise self._error

    def apply(self, editor: Editor, action: Action, evidence: Evidence) -> Action | Rejection:
        raise self._error


@pytest.mark.parametrize(
    "error", [ValueError("a free size"), KeyError("x"), IndexError(), MemoryError()]
)
def test_it_has_no_sites(error: Exception) -> None:
    """The warning names the error and the place."""
    model = opened(conv_chain())
    with pytest.warns(PluginFaultWarning, match=rf"{type(error).__name__}.*test_plugin_faults.py"):
        assert not list(sites_of("rewrite", Broken(error), model, offer()))


def test_its_action_is_rejected() -> None:
    """As one that does not fit, with the error as the reason."""
    editor = Editor(opened(conv_chain()))
    with pytest.warns(PluginFaultWarning, match="rewrite:broken failed.*ValueError: odd"):
        made = apply_at("rewrite", Broken(ValueError("odd")), editor, ACTION, NoEvidence())
    assert isinstance(made, Rejection)
    assert made.reason == "it failed with ValueError: odd"


def test_what_a_person_can_mend_is_raised() -> None:
    """Unusable data is no fault of the plug-in."""
    broken = Broken(DataError("no such file"))
    with pytest.raises(DataError):
        list(sites_of("rewrite", broken, opened(conv_chain()), offer()))
    with pytest.raises(DataError):
        apply_at("rewrite", broken, Editor(opened(conv_chain())), ACTION, NoEvidence())
