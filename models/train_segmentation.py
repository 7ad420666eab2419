"""Train and export the segmentation network: `python models/train_segmentation.py`.

Circles, squares and triangles drawn over one another on shaded, noisy ground, 48 x 48 in 16 grey
levels, a class a pixel. Needs torch, onnx, numpy and pillow. Seed 0 writes
segmentation/segmentation.onnx and the test data segmentation.npz; another seed writes
segmentation/segmentation-seedN.onnx.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto
from PIL import Image, ImageDraw, ImageFilter
from torch import nn
from writer import Writer

SIDE, CLASSES = 48, 4
FOLDER = Path(__file__).parent / "segmentation"
TEST_SEED, TEST_SAMPLES, TRAIN_SAMPLES = 20240, 600, 2000


def draw(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Image and classes, both uint8 [48, 48]; 1 circle, 2 square, 3 triangle, 0 ground."""
    scale = 4
    ground = int(random.integers(40, 200))
    image = Image.new("L", (SIDE * scale, SIDE * scale), ground)
    mask = Image.new("L", (SIDE, SIDE), 0)
    for _ in range(int(random.integers(2, 6))):
        shape = int(random.integers(1, CLASSES))
        centre, radius = random.uniform(6, SIDE - 6, 2), random.uniform(6, 14)
        grey = int(np.clip(ground + random.choice([-1, 1]) * random.integers(20, 90), 0, 255))
        turn = random.uniform(0, 2 * np.pi)
        for target, zoom, fill in ((image, scale, grey), (mask, 1, shape)):
            _shape(ImageDraw.Draw(target), shape, centre * zoom, radius * zoom, turn, fill)
    image = image.resize((SIDE, SIDE), Image.Resampling.BOX)
    image = image.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.0)))
    noisy = np.asarray(image, np.float32)
    noisy = noisy + random.normal(0, random.uniform(4, 26), noisy.shape)
    return (np.clip(np.rint(noisy / 17), 0, 15) * 17).astype(np.uint8), np.asarray(mask)


def _shape(pen: ImageDraw.ImageDraw, shape: int, centre, radius: float, turn: float, fill: int):
    if shape == 1:
        pen.ellipse([*(centre - radius), *(centre + radius)], fill=fill)
        return
    corners = 4 if shape == 2 else 3
    angles = turn + 2 * np.pi * np.arange(corners) / corners
    around = centre + 1.2 * radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pen.polygon([tuple(point) for point in around.tolist()], fill=fill)


def samples(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [count, 1, 48, 48] and classes uint8 [count, 48, 48]."""
    random = np.random.default_rng(seed)
    images, masks = zip(*(draw(random) for _ in range(count)), strict=True)
    return np.stack(images)[:, None], np.stack(masks)


def block(channels_in: int, channels_out: int) -> nn.Sequential:
    """Conv, batch norm and ReLU, twice."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
        nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


class Net(nn.Module):
    """A U-Net of three levels: 8, 16 and 32 channels, a skip Concat at two of them."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = block(1, 8), block(8, 16), block(16, 32)
        self.up2, self.up1 = block(32 + 16, 16), block(16 + 8, 8)
        self.head = nn.Conv2d(8, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [n, 4, 48, 48] of images [n, 1, 48, 48] in -1..1."""
        halve, double = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        skip1 = self.down1(x)
        skip2 = self.down2(halve(skip1))
        x = self.bottom(halve(skip2))
        x = self.up2(torch.cat([double(x), skip2], 1))
        return self.head(self.up1(torch.cat([double(x), skip1], 1)))


def scaled(images: np.ndarray) -> torch.Tensor:
    """What the network takes: x / 127.5 - 1."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1)


def train(seed: int, epochs: int) -> Net:
    """AdamW with a cosine schedule, images mirrored at random."""
    torch.manual_seed(seed)
    images, masks = samples(1000 + seed, TRAIN_SAMPLES)
    x, y = scaled(images), torch.from_numpy(masks.astype(np.int64))
    net = Net()
    rate = torch.optim.AdamW(net.parameters(), lr=6e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(rate, epochs * (len(x) // 24))
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - 23, 24):
            chosen = order[start : start + 24]
            flips = [axis for axis in (1, 2) if torch.rand(()) < 0.5]
            logits = net(x[chosen].flip([axis + 1 for axis in flips]))
            loss = nn.functional.cross_entropy(logits, y[chosen].flip(flips))
            rate.zero_grad()
            loss.backward()
            rate.step()
            schedule.step()
    return net.eval()


def export(net: Net, path: Path) -> None:
    """The ONNX file: images [N, 1, 48, 48] to classes [N, 48, 48]."""
    w = Writer("segmentation")

    def double_conv(x: str, layers: nn.Sequential, name: str) -> str:
        for index in (0, 3):
            x = w.conv(x, layers[index], f"{name}.conv{index}")
            x = w.node("Relu", w.batch_norm(x, layers[index + 1], f"{name}.bn{index}"))
        return x

    def halve(x: str) -> str:
        return w.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    scales = w.weight("scales", np.array([1, 1, 2, 2], np.float32))

    def double(x: str) -> str:
        return w.node(
            "Resize",
            x,
            "",
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    skip1 = double_conv("image", net.down1, "down1")
    skip2 = double_conv(halve(skip1), net.down2, "down2")
    x = double_conv(halve(skip2), net.bottom, "bottom")
    x = double_conv(w.node("Concat", double(x), skip2, axis=1), net.up2, "up2")
    x = double_conv(w.node("Concat", double(x), skip1, axis=1), net.up1, "up1")
    x = w.node("ArgMax", w.conv(x, net.head, "head"), axis=1, keepdims=0)
    outputs = {"classes": (x, TensorProto.INT64, ["N", SIDE, SIDE])}
    w.save(path, {"image": ["N", 1, SIDE, SIDE]}, outputs)


def write_data(images: np.ndarray, masks: np.ndarray) -> None:
    """The test images as edgeopt reads them."""
    settings = {
        "metric": "top1",
        "kind": "image",
        "preprocess": {"scale": 1 / 255, "mean": [0.5], "std": [0.5]},
    }
    np.savez_compressed(
        FOLDER / "segmentation.npz",
        image=images,
        label=masks,
        edgeopt=np.array(json.dumps(settings)),
    )


def main() -> None:
    """Train, say the test accuracy, write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    net = train(asked.seed, asked.epochs)
    images, masks = samples(TEST_SEED, TEST_SAMPLES)
    with torch.no_grad():
        right = net(scaled(images)).argmax(1).numpy() == masks
    ground = float(np.mean(masks == 0))
    print(f"seed {asked.seed}: {right.mean():.4f} of pixels right, ground alone {ground:.4f}")
    name = "segmentation.onnx" if asked.seed == 0 else f"segmentation-seed{asked.seed}.onnx"
    export(net, FOLDER / name)
    if asked.seed == 0:
        write_data(images, masks)


if __name__ == "__main__":
    main()
