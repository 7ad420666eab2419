"""What a file alone says: size, parameters, operators, arithmetic. Needs no device."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.core.model import Model
from edgeopt.core.profile import DeviceProfile
from edgeopt.gate.budget import Budget
from edgeopt.gate.evidence import Absent, Evidence
from edgeopt.graph.cost import static_cost
from edgeopt.graph.read import open_graph
from edgeopt.targets.profiles import load_profile, search_path

if TYPE_CHECKING:
    import onnx_ir as ir

_FIELDS = {
    "params": "params",
    "ops": "nodes",
    "macs": "macs",
    "static_peak_memory": "activation_bytes",
}
_NEED_SIZES = frozenset({"macs", "static_peak_memory"})
_KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def exact(budget: Budget, model: Model, base: Model | None, project: Path) -> Evidence | Absent:
    """The evidence for a budget on an exact metric.

    Args:
        budget: What is asked.
        model: Under the gate.
        base: What it is compared with; None without.
        project: Folder whose own hardware profiles may be named too.

    Raises:
        UsageError: There is no such profile.
        ModelError: The graph cannot be read.
    """
    free = _free_sizes(model) if budget.metric.name in _NEED_SIZES else ""
    if free:
        return Absent(
            reason=f"{free} can be of any size, and {budget.metric.name} depends on it; "
            "gate a model with fixed sizes, or size, params and ops of this one"
        )
    value = _value(budget, model, project)
    return Evidence(
        value=value,
        origin="exact",
        base=None if base is None else _value(budget, base, project),
        note=_why_all(budget, model, project),
    )


def _free_sizes(model: Model) -> str:
    """Inputs with free axes behind the first, which is taken for the batch and counts as 1."""
    free = [
        f"{one.name}[{axis}]"
        for one in model.inputs
        for axis, size in enumerate(one.shape or ())
        if axis and not isinstance(size, int)
    ]
    return ", ".join(free)


def _why_all(budget: Budget, model: Model, project: Path) -> str:
    if budget.metric.name != "unsupported_ops":
        return ""
    ceiling = _profile(budget, project).opset_ceiling
    if model.opset <= ceiling:
        return ""
    return (
        f"the model is of opset {model.opset}, and runtimes of {budget.device} read up to {ceiling}"
    )


def _profile(budget: Budget, project: Path) -> DeviceProfile:
    return load_profile(budget.device, search_path(project))


def _value(budget: Budget, model: Model, project: Path) -> float:
    if budget.metric.name == "size":
        return float(model.size_bytes)
    if budget.metric.name == "unsupported_ops":
        return float(_unsupported(model, _profile(budget, project)))
    return float(_cost(model)[_FIELDS[budget.metric.name]])


@cache
def _cost(model: Model) -> Mapping[str, float]:
    return static_cost(_graph(model))


@cache
def _graph(model: Model) -> "ir.Model":
    return open_graph(model.path)


def _unsupported(model: Model, profile: DeviceProfile) -> int:
    """Operators of foreign domains; all of them where the opset is newer than the device reads."""
    nodes = list(_graph(model).graph.all_nodes())
    if model.opset > profile.opset_ceiling:
        return len(nodes)
    return sum(node.domain not in _KNOWN_DOMAINS for node in nodes)
