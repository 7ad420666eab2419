"""Weights in the safetensors format, read and written with NumPy alone.

A file is eight bytes (length of the header, little-endian), the header (JSON: name to dtype, shape
and offsets; `__metadata__` holds text), and the data one after the other.
https://github.com/huggingface/safetensors#format
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edgeopt.errors import UsageError
from edgeopt.search.policy.network import fresh, shapes

_MOST_BYTES = 1 << 24
_HINT = "give a file that `edgeopt train` wrote"
POLICY = "policy.safetensors"
"""What a training calls its result."""
SHIPPED = Path(__file__).parent / "shipped"
"""Folder with the weights that come with the package, by name of the strategy."""


@dataclass(frozen=True)
class Trained:
    """Weights, and in words how they came about."""

    weights: Mapping[str, npt.NDArray[np.float32]]
    origin: Mapping[str, str]


def save(path: Path, trained: Trained) -> None:
    """Write a file; it is whole or not there."""
    header: dict[str, Any] = {"__metadata__": dict(sorted(trained.origin.items()))}
    blocks: list[bytes] = []
    at = 0
    for name, values in sorted(trained.weights.items()):
        block = np.ascontiguousarray(values, dtype="<f4").tobytes()
        offsets = [at, at + len(block)]
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": offsets}
        blocks.append(block)
        at += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))
    os.replace(beside, path)


def load(path: Path) -> Trained:
    """Read a file of weights for this network.

    Raises:
        UsageError: There is no such file, or it holds something else.
    """
    try:
        content = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"the policy cannot be read: {reason}", where=str(path), hint=_HINT
        ) from error
    try:
        found = _parsed(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError("this is no safetensors file", where=str(path), hint=_HINT) from error
    wanted = shapes()
    for name, shape in wanted.items():
        if name not in found.weights or found.weights[name].shape != shape:
            raise UsageError(
                f"these are weights of another network: {name} is missing or of another shape",
                where=str(path),
                hint=_HINT,
            )
        if not np.isfinite(found.weights[name]).all():
            raise UsageError(f"the weights {name} are not finite", where=str(path), hint=_HINT)
    return Trained({name: found.weights[name] for name in wanted}, found.origin)


def shipped(name: str) -> Trained:
    """The weights that come with the package for a strategy."""
    return load(SHIPPED / f"{name}.safetensors")


def begun(name: str, seed: int, *, anew: bool) -> Trained:
    """Weights that a training begins with: drawn anew, or those shipped for a strategy."""
    return Trained(fresh(seed), {"begun": "from scratch"}) if anew else shipped(name)


def _parsed(content: bytes) -> Trained:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    data = content[8 + size :]
    origin = cast("dict[str, str]", header.pop("__metadata__", {}))
    weights: dict[str, npt.NDArray[np.float32]] = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is not float32")
        start, end = entry["data_offsets"]
        values = np.frombuffer(data[start:end], dtype="<f4")
        weights[name] = values.reshape(entry["shape"]).astype(np.float32)
    return Trained(weights, origin)
