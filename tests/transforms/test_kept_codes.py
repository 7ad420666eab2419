"""What was made of weights is kept, up to a bound in bytes."""

import numpy as np
import onnx_ir as ir

from edgeopt.transforms.quantize._kept import Kept


def _tensor(size: int) -> ir.Tensor:
    return ir.Tensor(np.zeros(size, np.float32))


def test_the_same_tensor_is_made_into_something_once() -> None:
    """A second question under the same key gets the same object; another key does not."""
    kept, tensor = Kept(), _tensor(10)
    first = kept.remembered(tensor, ("a",), lambda: np.zeros(10, np.int8))
    assert kept.remembered(tensor, ("a",), lambda: np.ones(10, np.int8)) is first
    assert kept.remembered(tensor, ("b",), lambda: np.ones(10, np.int8)) is not first


def test_the_bytes_held_stay_under_the_bound() -> None:
    """The oldest go first, whatever their number; the latest always stays."""
    kept = Kept(limit_bytes=1000)
    tensors = [_tensor(100) for _ in range(20)]
    for tensor in tensors:
        kept.remembered(tensor, (), lambda: np.zeros(100, np.int8))
        assert kept.bytes <= 1000
    made: list[int] = []
    kept.remembered(tensors[0], (), lambda: made.append(1) or np.zeros(100, np.int8))
    kept.remembered(tensors[-1], (), lambda: made.append(2) or np.zeros(100, np.int8))
    assert made == [1]
