"""The same network in torch, for training: the one typed door to torch in this room."""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from edgeopt.search.policy.network import Weights, forward
from edgeopt.search.policy.observation import Observation


class Network(torch.nn.Module):
    """`network.forward` over parameters.

    Args:
        weights: To begin with.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        made = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in weights.items()}
        self.weights = torch.nn.ParameterDict(made)

    def forward(self, seen: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits [B, C] and values [B]."""
        logits, value = forward(dict(self.weights.items()), seen)
        return logits, value

    def arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """The weights of the moment."""
        return {n: np.array(p.detach().numpy(), np.float32) for n, p in self.weights.items()}


def tensors(seen: Observation) -> dict[str, torch.Tensor]:
    """An observation for torch."""
    return {
        name: torch.from_numpy(np.ascontiguousarray(values))
        for name, values in seen.arrays().items()
    }
