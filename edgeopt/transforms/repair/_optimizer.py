"""`optimizer`: what moves the weights of a training.

SOAP (Vyas et al., 2024: Adam in the eigenbasis of Shampoo's preconditioner, refreshed every ten
steps), as pytorch-optimizer has it. What is trained here was solved by least squares and is near
in every direction that is easy, so what is left to gain lies along directions of small curvature,
where AdamW crawls. Measured: after equal seconds nets of three models lose half as much accuracy or
less under one rate, where AdamW wants another one for each (docs/pruning.md).
"""

import importlib
from collections.abc import Iterable
from typing import Any

_LARGEST = 512
"""An axis that is longer has no preconditioner: its cost grows with the cube."""


def optimizer(weights: Iterable[Any], rate: float) -> Any:
    """A torch optimizer at its beginning.

    Args:
        weights: Tensors with gradients.
        rate: Of learning; a schedule may change it in the parameter groups.
    """
    library: Any = importlib.import_module("pytorch_optimizer")
    return library.SOAP(list(weights), lr=rate, weight_decay=0.0, max_precondition_dim=_LARGEST)
