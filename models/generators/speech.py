"""Recorded speech from registry packages, cut into short recordings with noise and labels.

The packages ship a reading, two dialogues and a telephone conversation (see the manifest). Where
speech is, is taken from the clean signal's energy, or from the reference that the package ships
beside it, before any noise is added.
"""

import wave
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

RATE = 16000
FRAME = 512
CONTEXT = 64
Signal = np.ndarray


def recordings(
    seed: int, counts: Mapping[str, int], assets: Mapping[str, Path]
) -> Iterator[tuple[Signal, np.ndarray]]:
    """Noisy signals float32 [frames * 512] and labels int64 [frames]: 1 where speech prevails.

    Each holds one piece of speech with a pause before and after; no two share any speech. Noise
    (pink, white or hum with harmonics) lies 4 to 18 dB below the speech.
    """
    random = np.random.default_rng(seed)
    frames = counts["frames"]
    pieces = list(_pieces(assets, frames * FRAME))
    order = random.permutation(len(pieces))
    for index in order[: counts["recordings"]]:
        yield _recording(random, *pieces[index], frames)


def framed(signal: Signal) -> Signal:
    """[frames, 576]: each frame of 512 new samples behind the last 64 of the one before."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), signal])
    starts = np.arange(len(signal) // FRAME) * FRAME
    return np.stack([padded[start : start + CONTEXT + FRAME] for start in starts])


def read_wave(path: Path) -> Signal:
    """A 16-bit mono wave file as float32 in -1..1 at 16 kHz.

    Raises:
        ValueError: The file is not 16-bit mono, or its rate cannot be brought to 16 kHz.
    """
    with wave.open(str(path)) as stream:
        if (stream.getsampwidth(), stream.getnchannels()) != (2, 1):
            raise ValueError(f"{path}: expected 16-bit mono")
        rate = stream.getframerate()
        raw = np.frombuffer(stream.readframes(stream.getnframes()), "<i2")
    return resampled(raw.astype(np.float64) / 32768, rate).astype(np.float32)


def resampled(signal: Signal, rate: int) -> Signal:
    """To 16 kHz by the Fourier transform of the whole signal; lower rates stay as they are."""
    if rate == RATE:
        return signal
    count = round(len(signal) * RATE / rate)
    spectrum = np.fft.rfft(signal)[: count // 2 + 1]
    return np.fft.irfft(spectrum, count) * (count / len(signal))


def speaks(signal: Signal) -> np.ndarray:
    """[samples] of 0 and 1: energy over 6 % of the loudest, by 10 ms, with 100 ms hangover."""
    step = RATE // 100
    blocks = signal[: len(signal) // step * step].reshape(-1, step)
    level = np.sqrt(np.mean(blocks.astype(np.float64) ** 2, axis=1))
    loud = level > 0.06 * np.quantile(level, 0.99)
    held = np.convolve(loud, np.ones(11))[: len(loud)] > 0
    return np.pad(np.repeat(held, step), (0, len(signal) - len(held) * step)).astype(np.int64)


def referenced(rttm: Path, count: int) -> np.ndarray:
    """[samples] of 0 and 1 from a reference in RTTM: `SPEAKER file 1 start duration ...`."""
    found = np.zeros(count, np.int64)
    for row in rttm.read_text().splitlines():
        start, duration = (float(field) for field in row.split()[3:5])
        found[round(start * RATE) : round((start + duration) * RATE)] = 1
    return found


def _pieces(assets: Mapping[str, Path], length: int) -> Iterator[tuple[Signal, np.ndarray]]:
    """Consecutive pieces of half a recording's length with their labels, speech in each."""
    size = length // 2
    for name in sorted(assets):
        if not name.endswith(".wav"):
            continue
        signal = read_wave(assets[name])
        reference = assets.get(name.removesuffix(".wav") + ".rttm")
        label = referenced(reference, len(signal)) if reference else speaks(signal)
        for start in range(0, len(signal) - size + 1, size):
            piece = slice(start, start + size)
            if label[piece].mean() > 0.2:
                yield signal[piece], label[piece]


def _recording(
    random: np.random.Generator, speech: Signal, label: np.ndarray, frames: int
) -> tuple[Signal, np.ndarray]:
    signal, truth = np.zeros(frames * FRAME), np.zeros(frames * FRAME, np.int64)
    start = int(random.integers(0, len(signal) - len(speech) + 1))
    power = float(np.mean(speech[label > 0].astype(np.float64) ** 2))
    fade = np.clip(np.minimum(np.arange(len(speech)), np.arange(len(speech))[::-1]) / 80, 0, 1)
    signal[start : start + len(speech)] = speech * fade
    truth[start : start + len(speech)] = label
    behind = noise(random, len(signal))
    decibels = random.uniform(4, 18)
    behind *= np.sqrt(power / np.mean(behind**2) / 10 ** (decibels / 10))
    mixed = (signal + behind) * random.uniform(0.3, 1.0)
    mixed /= max(1.0, float(np.abs(mixed).max()))
    return mixed.astype(np.float32), (truth.reshape(-1, FRAME).mean(1) > 0.5).astype(np.int64)


def noise(random: np.random.Generator, count: int) -> Signal:
    """Pink, white, or hum with harmonics over white, of unit deviation or about."""
    kind = random.integers(3)
    frequency = np.fft.rfftfreq(count, 1 / RATE)
    spectrum = np.fft.rfft(random.normal(size=count))
    if kind == 0:
        spectrum /= np.sqrt(np.maximum(frequency, 20))
    found = np.fft.irfft(spectrum, count)
    found /= found.std()
    if kind == 2:
        time, base = np.arange(count) / RATE, random.uniform(80, 240)
        tones = [np.sin(2 * np.pi * base * n * time + random.uniform(0, 6)) / n for n in (1, 2, 3)]
        found = 0.5 * found + np.sum(tones, axis=0)
    return found
