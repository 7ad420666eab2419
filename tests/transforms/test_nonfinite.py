"""NaN and infinity go through a rewritten graph as they went through the given one."""

from pathlib import Path

import pytest
from onnx import TensorProto, parser

from edgeopt import plugins
from edgeopt.testing.nonfinite_exam import examine_nonfinite
from edgeopt.transforms.canonicalize import ALWAYS
from edgeopt.transforms.stages import transform_of

GOLDEN = Path(__file__).parents[1] / "golden"
LOOSELY = {
    "affine_before": "sums in another order",
    "reassociate": "sums in another order",
}
"""Rules that may make NaN of an infinity, or the other way round, with the reason."""
OTHERWISE = {
    "blocks_to_groups": "an infinity no longer meets the zeros beside the blocks",
    "depthwise_into_dense": "an infinity of one channel meets the weights of all",
    "dense_groups": "an infinity meets the zeros beside the blocks",
    "drop_zero_channels": "an infinity no longer meets weights that are zero",
    "enlarge_kernel": "an infinity meets the zeros around the kernel",
    "halve_groups": "an infinity meets the zeros beside the blocks",
    "leaky_to_relu": "minus infinity times a slope of 0 was NaN",
    "pad_channels": "an infinity meets weights that are zero",
    "softmax_unshifted": "an exponential that overflows made NaN",
    "space_to_depth_stem": "an infinity meets weights that are zero",
    "where_to_sum": "what is masked and not finite stays so",
}
"""Rules that change what is not finite, with the reason: choices, never done without asking."""
FINITE = {"fast_codes"}
"""Rules about codes, which have no NaN and no infinity: behind a quantizer everything is finite."""
NEEDS_OFFER = {"drop_output", "freeze_shapes", "freeze_value"}
RULES = [
    (shelf, name)
    for shelf in ("rewrite", "fuse")
    for name in plugins.SHELVES[shelf].names()
    if name not in NEEDS_OFFER | OTHERWISE.keys() and not transform_of(name)[1].whole_model
]


@pytest.mark.parametrize(("shelf", "name"), RULES)
def test_nonfinite_stays(shelf: str, name: str) -> None:
    """On every golden model of a rule, element by element."""
    compared, numbers = 0, False
    for path in sorted((GOLDEN / shelf / name).glob("before*.txt")):
        model = parser.parse_model(path.read_text(encoding="utf-8"))
        compared += examine_nonfinite(name, model, loosely=name in LOOSELY)
        kinds = {value.type.tensor_type.elem_type for value in model.graph.output}
        numbers = numbers or TensorProto.FLOAT in kinds
    assert compared or not numbers or name in FINITE, "no golden has outputs that may not be finite"


def test_what_changes_it_is_a_choice() -> None:
    """No rule of the pre-pass changes what NaN and infinity do."""
    assert not OTHERWISE.keys() & ALWAYS
