"""Small models as values: what data must meet, without any file."""

from pathlib import Path

from edgeopt.core.model import Model, TensorSpec


def model(inputs: dict[str, tuple], outputs: dict[str, tuple] | None = None) -> Model:
    """A model of inputs and outputs: name to (dtype, *shape)."""

    def specs(given: dict[str, tuple]) -> tuple[TensorSpec, ...]:
        return tuple(
            TensorSpec(name=name, dtype=dtype, shape=tuple(shape))
            for name, (dtype, *shape) in given.items()
        )

    return Model(
        path=Path("model.onnx"),
        digest="sha256:0",
        opset=17,
        inputs=specs(inputs),
        outputs=specs(outputs or {"y": ("float32", "n", 10)}),
        size_bytes=1,
    )


IMAGES = model({"x": ("float32", "n", 3, 8, 8)})
FRAMES = model(
    {"input": ("float32", "n", 320), "sr": ("int64",), "state": ("float32", 2, "n", 4)},
    {"p": ("float32", "n", 1), "stateN": ("float32", 2, "n", 4)},
)
TOKENS = model(
    {"ids": ("int64", "n", "length"), "attention_mask": ("int64", "n", "length")},
    {"e": ("float32", "n", 16)},
)
