"""Which of some spoken excerpts is this? 0.8 s of noisy speech as the mel windows of the network.

Spotting by example, what such an embedding is for: excerpts of a reading, two dialogues, a
monologue and two sentences are told apart by a classifier that is fitted on draws of each excerpt
with its own noise, loudness and shift in time; the samples are other draws. The labels are real:
which speech it was cut from. What is fitted and what is asked share the speech and nothing else.

A window is 76 frames of 32 mel bands by the package's own front end, as in its wake word chain:
samples scaled as 16-bit integers, output / 10 + 2, here in steps of 1/128 so that the file
compresses. The classifier on the 96 numbers of the
unmodified network is Fisher's linear discriminant with one covariance, shrunk by a fifth towards
its diagonal: a row of weights and an offset an excerpt.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from . import speech

VERSION = 1
MEL = "oww-mel.onnx"
FRAMES, BANDS = 76, 32
LENGTH, SHIFT = 12640, 480
DECIBELS = (-3.0, 9.0)
SHRINKAGE = 0.2
SPOKEN = 0.7


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`input_1` float32 [n, 76, 32, 1] and `label` int64 [n, 2]: excerpt, 1.

    The classifier is in the metric's options: `centroids` are its weights, `offsets` its offsets.
    """
    random = np.random.default_rng(seed)
    front, network = _session(assets[MEL]), _session(model)
    names = sorted(name for name in assets if name.endswith(".wav"))
    found = [piece for name in names for piece in pieces(speech.read_wave(assets[name]))]
    chosen = np.linspace(0, len(found) - 1, counts["excerpts"]).round().astype(int)
    excerpts = [found[index] for index in chosen]
    known, owners = _windows(random, front, excerpts, counts["fitted"])
    windows, labels = _windows(random, front, excerpts, counts["samples"])
    name = network.get_inputs()[0].name
    embedded = np.stack([network.run(None, {name: window[None]})[0].ravel() for window in known])
    weights, offsets = discriminant(embedded, owners, len(excerpts))
    return {
        "input_1": windows,
        "label": np.stack([labels, np.ones_like(labels)], axis=1),
        "metric_options": {"centroids": weights.tolist(), "offsets": offsets.tolist()},
    }


def pieces(signal: np.ndarray) -> Iterator[np.ndarray]:
    """Disjoint pieces that are mostly speech, with room for a shift to both sides."""
    spoken = speech.speaks(signal)
    whole = LENGTH + 2 * SHIFT
    for start in range(0, len(signal) - whole + 1, whole):
        if spoken[start : start + whole].mean() > SPOKEN:
            yield signal[start : start + whole]


def mixed(random: np.random.Generator, excerpt: np.ndarray) -> np.ndarray:
    """float32 [12640] in 16-bit units: shifted, in noise at a drawn distance and loudness."""
    start = int(random.integers(0, 2 * SHIFT + 1))
    piece = excerpt[start : start + LENGTH].astype(np.float64)
    noise = speech.noise(random, LENGTH)
    decibels = random.uniform(*DECIBELS)
    noise *= np.sqrt(np.mean(piece**2) / np.mean(noise**2) / 10 ** (decibels / 10))
    both = piece + noise
    return (both * random.uniform(0.1, 0.9) / np.abs(both).max() * 32767).astype(np.float32)


def discriminant(
    found: np.ndarray, owners: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights [classes, width] and offsets [classes]: the largest of weights @ x + offsets wins.

    To five decimals, so that the last bits of a machine's linear algebra do not show.
    """
    means = np.stack([found[owners == index].mean(axis=0) for index in range(classes)])
    apart = (found - means[owners]).astype(np.float64)
    covariance = apart.T @ apart / len(found)
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance))
    weights = np.linalg.solve(shrunk, means.T).T
    return np.round(weights, 5), np.round(-0.5 * np.sum(weights * means, axis=1), 5)


def _windows(
    random: np.random.Generator,
    front: onnxruntime.InferenceSession,
    excerpts: list[np.ndarray],
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Mel windows [count, 76, 32, 1] and which excerpt each is of: all equally often."""
    labels = random.permutation(np.arange(count) % len(excerpts)).astype(np.int64)
    drawn = (mixed(random, excerpts[int(label)]) for label in labels)
    mels = [front.run(None, {"input": samples[None]})[0] for samples in drawn]
    windows = np.stack([mel.reshape(-1, BANDS, 1)[:FRAMES] for mel in mels]) / 10 + 2
    return (np.rint(windows * 128) / 128).astype(np.float32), labels


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
