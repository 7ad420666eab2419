"""Message passing over choices, and one scorer for every candidate.

`forward` is written once for NumPy and torch: it takes arrays of either and uses only what both
have. Weights are a mapping of names to arrays, all in float32.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgeopt.search.policy.observation import CANDIDATE, GLOBAL, NODE

Weights = Mapping[str, npt.NDArray[np.float32]]
LAYERS = 3
WIDTH = 32
SCORER = 48
_NEVER = 1e8
_EPSILON = 1e-5
_FIRST = 0.01
"""Scale of the last layer to begin with: all candidates are then nearly alike."""


def shapes(width: int = WIDTH) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all weights."""
    found: dict[str, tuple[int, ...]] = {
        "whole_w": (GLOBAL, width),
        "whole_b": (width,),
        "node_w": (NODE, width),
        "node_whole": (width, width),
        "node_b": (width,),
    }
    for layer in range(LAYERS):
        for part in ("own", "near", "border"):
            found[f"pass{layer}_{part}"] = (width, width)
        for part in ("b", "scale", "shift"):
            found[f"pass{layer}_{part}"] = (width,)
    return found | {
        "pool_nodes": (width, width),
        "pool_most": (width, width),
        "pool_whole": (width, width),
        "pool_b": (width,),
        "candidate_w": (CANDIDATE, SCORER),
        "candidate_nodes": (width, SCORER),
        "candidate_pool": (width, SCORER),
        "candidate_b": (SCORER,),
        "scorer_w": (SCORER, SCORER),
        "scorer_b": (SCORER,),
        "logit_w": (SCORER, 1),
        "value_w": (width, width),
        "value_b": (width,),
        "value_out": (width, 1),
        "value_out_b": (1,),
    }


def fresh(seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Weights to begin with."""
    generator = np.random.default_rng(seed)
    found: dict[str, npt.NDArray[np.float32]] = {}
    for name, shape in shapes().items():
        if name.endswith("_scale"):
            values = np.ones(shape)
        elif len(shape) == 1:
            values = np.zeros(shape)
        else:
            values = generator.standard_normal(shape) * (2 / shape[0]) ** 0.5
            values *= _FIRST if name in {"logit_w", "value_out"} else 0.7
        found[name] = values.astype(np.float32)
    return found


def forward(weights: Mapping[str, Any], seen: Mapping[str, Any]) -> tuple[Any, Any]:
    """Logits and values, of NumPy arrays or of torch tensors.

    Args:
        weights: As `shapes` says.
        seen: The arrays of an `Observation`.

    Returns:
        Logits [B, C], very low for what may not be chosen; values [B].
    """
    w = weights
    whole = _positive(seen["whole"] @ w["whole_w"] + w["whole_b"])
    exists = seen["exists"]
    nodes = seen["node"] @ w["node_w"] + (whole @ w["node_whole"] + w["node_b"])[:, None]
    nodes = _positive(nodes) * exists
    for layer in range(LAYERS):
        nodes = _passed(w, f"pass{layer}_", nodes, seen) * exists
    mean = nodes.sum(1) / exists.sum(1)
    pool = mean @ w["pool_nodes"] + _most(nodes) @ w["pool_most"]
    pool = _positive(pool + whole @ w["pool_whole"] + w["pool_b"])
    found = seen["candidate"] @ w["candidate_w"] + seen["members"] @ (nodes @ w["candidate_nodes"])
    found = found + (pool @ w["candidate_pool"] + w["candidate_b"])[:, None]
    found = _positive(_positive(found) @ w["scorer_w"] + w["scorer_b"])
    valid = seen["valid"]
    logits = (found @ w["logit_w"])[:, :, 0] * valid - (1.0 - valid) * _NEVER
    value = _positive(pool @ w["value_w"] + w["value_b"]) @ w["value_out"] + w["value_out_b"]
    return logits, value[:, 0]


def _passed(w: Mapping[str, Any], name: str, nodes: Any, seen: Mapping[str, Any]) -> Any:
    """One round: a choice hears its neighbours, plainly and by what their border costs."""
    mixed = nodes @ w[name + "own"] + seen["near"] @ (nodes @ w[name + "near"])
    mixed = mixed + seen["border"] @ (nodes @ w[name + "border"]) + w[name + "b"]
    mean = mixed.sum(2)[:, :, None] / mixed.shape[2]
    left = mixed - mean
    spread = ((left * left).sum(2)[:, :, None] / mixed.shape[2] + _EPSILON) ** 0.5
    return nodes + _positive(left / spread * w[name + "scale"] + w[name + "shift"])


def _positive(x: Any) -> Any:
    return x.clip(min=0)


def _most(nodes: Any) -> Any:
    """The greatest over choices; padding is 0 and all are 0 or more."""
    return nodes.max(1) if isinstance(nodes, np.ndarray) else nodes.amax(1)


def chances(logits: Any) -> npt.NDArray[np.float64]:
    """Probabilities [B, C] of logits."""
    high = np.asarray(logits, dtype=np.float64)
    power = np.exp(high - high.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True), dtype=np.float64)
