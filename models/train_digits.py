"""Train and export the digits network: `python models/train_digits.py --seed 0`.

Digits drawn with Pillow's own font, warped, shaded and noisy, 20 x 20 in 16 grey levels. Needs
torch, onnx, numpy and pillow. Seed 0 writes digits/digits.onnx and the test data digits.npz;
another seed writes digits/digits-seedN.onnx: the same network trained anew, for replays.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto
from PIL import Image, ImageDraw, ImageFont
from torch import nn
from writer import Writer

SIDE = 20
FOLDER = Path(__file__).parent / "digits"
TEST_SEED, TEST_SAMPLES, TRAIN_SAMPLES = 20240, 3000, 16000


def draw(random: np.random.Generator, digit: int) -> np.ndarray:
    """One digit, uint8 [20, 20], grey levels in steps of 17."""
    side = SIDE * 3
    font = ImageFont.load_default(size=float(random.uniform(34, 52)))
    image = Image.new("L", (side, side), 0)
    middle = (side / 2 + random.uniform(-5, 5), side / 2 + random.uniform(-5, 5))
    stroke = int(random.integers(0, 3))
    ImageDraw.Draw(image).text(
        middle, str(digit), fill=255, font=font, anchor="mm", stroke_width=stroke
    )
    grey = np.asarray(warp(random, image).resize((SIDE, SIDE), Image.Resampling.BOX), np.float32)
    ink, paper = 255 * random.uniform(0.5, 1.0), 255 * random.uniform(0.0, 0.25)
    grey = paper + (ink - paper) * grey / 255
    grey += 25 * random.uniform(-1, 1) * np.linspace(-1, 1, SIDE)[None, :]
    grey += random.normal(0, random.uniform(4, 30), grey.shape)
    if random.random() < 0.25:
        grey = 255 - grey
    return (np.clip(np.rint(grey / 17), 0, 15) * 17).astype(np.uint8)


def warp(random: np.random.Generator, image: Image.Image) -> Image.Image:
    """Rotation, shear and unequal scale about the middle, then a quadrilateral's distortion."""
    side = image.width
    angle, shear = random.uniform(-0.35, 0.35), random.uniform(-0.35, 0.35)
    scale = random.uniform(0.8, 1.25, 2)
    matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = matrix @ np.array([[1, shear], [0, 1]]) @ np.diag(scale)
    shift = side / 2 - matrix @ np.full(2, side / 2)
    rows = [*matrix[0], shift[0], *matrix[1], shift[1]]
    image = image.transform(image.size, Image.Transform.AFFINE, rows, Image.Resampling.BILINEAR)
    corners = np.array([0, 0, 0, side, side, side, side, 0]) + random.uniform(-7, 7, 8)
    return image.transform(
        image.size, Image.Transform.QUAD, corners.tolist(), Image.Resampling.BILINEAR
    )


def samples(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [count, 1, 20, 20] and labels int64 [count]."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    return np.stack([draw(random, int(label))[None] for label in labels]), labels


class Net(nn.Module):
    """Two Conv-Conv chains, one depthwise-separable residual block, two Gemm layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 24, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(24)
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24, bias=False)
        self.bn3 = nn.BatchNorm2d(24)
        self.pointwise = nn.Conv2d(24, 24, 1, bias=False)
        self.bn4 = nn.BatchNorm2d(24)
        self.conv3 = nn.Conv2d(24, 48, 3, stride=2, padding=1)
        self.bn5 = nn.BatchNorm2d(48)
        self.conv4 = nn.Conv2d(48, 48, 3, padding=1)
        self.fc1 = nn.Linear(48, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [n, 10] of images [n, 1, 20, 20] in -1..1."""
        x = torch.relu(self.bn1(self.conv1(x)))
        x = nn.functional.hardswish(self.bn2(self.conv2(x)))
        y = nn.functional.hardswish(self.bn3(self.depthwise(x)))
        x = x + self.bn4(self.pointwise(y))
        x = torch.relu(self.bn5(self.conv3(x)))
        x = torch.relu(self.conv4(x)).mean((2, 3))
        return self.fc2(torch.relu(self.fc1(x)))


def scaled(images: np.ndarray) -> torch.Tensor:
    """What the network takes: x / 127.5 - 1."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1)


def train(seed: int, epochs: int) -> Net:
    """Adam with a cosine schedule on freshly drawn digits."""
    torch.manual_seed(seed)
    images, labels = samples(1000 + seed, TRAIN_SAMPLES)
    x, y = scaled(images), torch.from_numpy(labels)
    net = Net()
    rate = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)
    steps = epochs * (len(x) // 128)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(rate, steps)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - 127, 128):
            chosen = order[start : start + 128]
            loss = nn.functional.cross_entropy(net(x[chosen]), y[chosen], label_smoothing=0.05)
            rate.zero_grad()
            loss.backward()
            rate.step()
            schedule.step()
    return net.eval()


def export(net: Net, path: Path) -> None:
    """The ONNX file: images [N, 1, 20, 20] to logits [N, 10]."""
    w = Writer("digits")
    x = w.node("Relu", w.batch_norm(w.conv("image", net.conv1, "conv1"), net.bn1, "bn1"))
    x = w.hard_swish(w.batch_norm(w.conv(x, net.conv2, "conv2"), net.bn2, "bn2"))
    y = w.hard_swish(w.batch_norm(w.conv(x, net.depthwise, "depthwise"), net.bn3, "bn3"))
    x = w.node("Add", x, w.batch_norm(w.conv(y, net.pointwise, "pointwise"), net.bn4, "bn4"))
    x = w.node("Relu", w.batch_norm(w.conv(x, net.conv3, "conv3"), net.bn5, "bn5"))
    x = w.node("Relu", w.conv(x, net.conv4, "conv4"))
    x = w.node("Flatten", w.node("GlobalAveragePool", x), axis=1)
    x = w.gemm(w.node("Relu", w.gemm(x, net.fc1, "fc1")), net.fc2, "fc2")
    outputs = {"logits": (x, TensorProto.FLOAT, ["N", 10])}
    w.save(path, {"image": ["N", 1, SIDE, SIDE]}, outputs)


def write_data(images: np.ndarray, labels: np.ndarray) -> None:
    """The test images as edgeopt reads them."""
    settings = {
        "metric": "top1",
        "kind": "image",
        "preprocess": {"scale": 1 / 255, "mean": [0.5], "std": [0.5]},
    }
    np.savez_compressed(
        FOLDER / "digits.npz",
        image=images,
        label=labels.astype(np.int64),
        edgeopt=np.array(json.dumps(settings)),
    )


def main() -> None:
    """Train, say the test accuracy, write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    net = train(asked.seed, asked.epochs)
    images, labels = samples(TEST_SEED, TEST_SAMPLES)
    with torch.no_grad():
        right = net(scaled(images)).argmax(1).numpy() == labels
    print(f"seed {asked.seed}: test accuracy {right.mean():.4f} of {TEST_SAMPLES}")
    export(net, FOLDER / ("digits.onnx" if asked.seed == 0 else f"digits-seed{asked.seed}.onnx"))
    if asked.seed == 0:
        write_data(images, labels)


if __name__ == "__main__":
    main()
