"""Sentences about twelve topics, 32 tokens each: does the embedding know what words mean?

A sentence holds three words of its topic; in some, one is a stray word of another topic. The
centroids that the metric compares with come from sentences over one half of each topic's words,
embedded by the unmodified network; the samples use the other half only, so that nothing but
meaning leads from a sample to its centroid. Embedding: mean over the sentence's tokens, then unit
length.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

VERSION = 2
LENGTH = 32
STRAY = 0.3
OUTPUT = "onnx::Shape_422"
TEMPLATES = (
    "yesterday we talked about the {} and the {} while someone mentioned a {}",
    "she wrote a short note on {} and {} but her brother only asked about {}",
    "there was a {} near the {} and nobody noticed the {}",
    "first came the {} then the {} and at last a {}",
    "they could not agree whether the {} or the {} mattered more than the {}",
    "my neighbour keeps telling me about {} and {} and sometimes {}",
    "this chapter explains {} with the help of {} and one remark on {}",
    "without the {} and the {} he would have forgotten the {}",
    "a picture of the {} hung beside a {} and a {}",
    "please look at the {} again before you bring the {} or the {}",
)


def make(
    model: Path, seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> dict[str, Any]:
    """`input_ids` and `attention_mask` int64 [n, 32], `label` int64 [n, 2]: topic, tokens."""
    random = np.random.default_rng(seed)
    tokenizer = Tokenizer.from_file(str(assets["minilm-tokenizer.json"]))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    topics = _topics()
    known, known_labels = _encoded(random, tokenizer, topics, 0, counts["fitted"])
    ids, labels = _encoded(random, tokenizer, topics, 1, counts["samples"])
    centroids = _centroids(model, known, known_labels, len(topics))
    return {
        "input_ids": ids,
        "attention_mask": _mask(labels),
        "label": labels,
        "metric_options": {"centroids": np.round(centroids, 5).tolist()},
    }


def _topics() -> list[tuple[list[str], list[str]]]:
    """Words of each topic: for the centroids, for the samples."""
    rows = (Path(__file__).parent / "topics.txt").read_text().splitlines()
    halves = [row.split(":")[1].split("|") for row in rows]
    return [(first.split(), second.split()) for first, second in halves]


def _encoded(
    random: np.random.Generator,
    tokenizer: Tokenizer,
    topics: list[tuple[list[str], list[str]]],
    half: int,
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    labels = random.permutation(np.arange(count) % len(topics))
    sentences: list[str] = []
    for label in labels:
        other = (int(label) + int(random.integers(1, len(topics)))) % len(topics)
        words = random.choice(topics[int(label)][half], 3, replace=False).tolist()
        if random.random() < STRAY:
            words[2] = str(random.choice(topics[other][half]))
        template = TEMPLATES[int(random.integers(len(TEMPLATES)))]
        sentences.append(template.format(*random.permutation(words).tolist()))
    encoded = tokenizer.encode_batch(sentences)
    lengths = [sum(sentence.attention_mask) for sentence in encoded]
    ids = np.array([sentence.ids for sentence in encoded], np.int64)
    return ids, np.stack([labels, lengths], axis=1).astype(np.int64)


def _mask(labels: np.ndarray) -> np.ndarray:
    return (np.arange(LENGTH)[None] < labels[:, 1:]).astype(np.int64)


def _centroids(model: Path, ids: np.ndarray, labels: np.ndarray, topics: int) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, ["CPUExecutionProvider"])
    mask = _mask(labels)
    found = np.zeros((topics, 0))
    for index in range(len(ids)):
        feed = {"input_ids": ids[index : index + 1], "attention_mask": mask[index : index + 1]}
        hidden = session.run([OUTPUT], feed)[0][0, : labels[index, 1]].mean(0)
        found = found if found.size else np.zeros((topics, len(hidden)))
        found[labels[index, 0]] += hidden / np.linalg.norm(hidden)
    return found / np.linalg.norm(found, axis=1, keepdims=True)
