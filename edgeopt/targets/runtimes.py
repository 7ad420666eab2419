"""Which onnxruntime a device can take: by Python, processor, C library and JetPack.

The newest wheels were asked of the package index with pip, for each Python, architecture and
manylinux tag, in November 2026 (`pip download --python-version ... --platform ...`). What it says
about JetPack's own builds comes from the sources named beside it and was not tried on a Jetson.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ARCHITECTURES = ("aarch64", "x86_64")
FLOOR = (3, 6)
_NEWEST_SEEN = (3, 14)
_MODERN: tuple[int, ...] = (2, 28)  # The C library of the newest wheels.
_MIDDLE: tuple[int, ...] = (2, 27)  # Ubuntu 18.04, JetPack 4.
_OLD: tuple[int, ...] = (2, 17)  # manylinux2014.
# Python -> (newest where glibc is 2.27 or later, newest where it is older); empty is no limit.
_WHEELS: dict[tuple[int, ...], tuple[str, str]] = {
    (3, 6): ("1.10.0", "1.10.0"),
    (3, 7): ("1.14.1", "1.14.1"),
    (3, 8): ("1.19.2", "1.16.3"),
    (3, 9): ("1.19.2", "1.16.3"),
    (3, 10): ("1.23.2", "1.16.3"),
    (3, 11): ("", "1.16.3"),
}
# Wheels before 1.19 were built for numpy 1 and fail at import beside numpy 2.
_NUMPY_1 = ("1.10.0", "1.14.1", "1.16.3")
# microsoft/onnxruntime#23957, #24112: SIGILL at import on Cortex-A72 (Raspberry Pi 4).
_CRASHES_ON_A72 = "1.21.0"
_GPU = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
_JETPACK_OF_L4T = {32: 4, 34: 5, 35: 5, 36: 6, 38: 7, 39: 7}
_GPU_SOURCES = {
    4: "GPU builds for JetPack 4 (Python 3.6) are in NVIDIA's Jetson Zoo on the eLinux wiki, "
    "up to about 1.11",
    5: "GPU builds for JetPack 5 (Python 3.8) are in NVIDIA's Jetson Zoo on the eLinux wiki, "
    "1.16 to 1.18",
    6: "GPU builds for JetPack 6 (Python 3.10) are in the package index of the Jetson AI Lab "
    "(pypi.jetson-ai-lab.io, folder jp6/cu126)",
    7: "no official GPU build for JetPack 7 was found; a generic aarch64 CUDA build lists CUDA "
    "and can still die at its first kernel: only running a model proves it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAdvice:
    """What to install on a device, and what to beware of.

    Args:
        requirement: As pip takes it; empty where no wheel exists.
        beside: Further requirements that keep it working.
        why: One sentence: the reason for that version, or for none.
        warning: What is wrong with the runtime that is there; empty where nothing is.
        gpu_note: Where the GPU build for this board comes from; never installed by edgeopt.
    """

    requirement: str
    why: str
    beside: tuple[str, ...] = ()
    warning: str = ""
    gpu_note: str = ""

    @property
    def requirements(self) -> tuple[str, ...]:
        """All that pip is asked for; empty where there is no wheel."""
        return (self.requirement, *self.beside) if self.requirement else ()


def advice(facts: Mapping[str, Any]) -> RuntimeAdvice:
    """The right wheel for a device.

    Args:
        facts: Of the agent's probe; nothing is advised without `python` and `architecture`.
            `glibc`, `jetpack`, `l4t`, `cpu_model`, `runtime`, `providers` sharpen it where they
            are known.
    """
    requirement, why = _wheel(facts)
    version = requirement.rpartition("==")[2]
    return RuntimeAdvice(
        requirement=requirement,
        why=why,
        beside=("numpy<2",) if version in _NUMPY_1 else (),
        warning=_warning(facts),
        gpu_note=_GPU_SOURCES.get(jetpack_major(facts), ""),
    )


def jetpack_major(facts: Mapping[str, Any]) -> int:
    """4, 5, 6, 7; 0 where it is no Jetson, or says no release."""
    if found := _numbers(facts.get("jetpack")):
        return found[0]
    release = _numbers(facts.get("l4t"))
    return _JETPACK_OF_L4T.get(release[0], 0) if release else 0


def has_gpu_build(facts: Mapping[str, Any]) -> bool:
    """Whether the runtime on the device was built for a GPU."""
    return any(provider in _GPU for provider in facts.get("providers") or ())


def platforms(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Platform tags of the wheels that run on a device, the newest first, as pip takes them.

    pip does not derive the older tags of another platform, so each is named.
    """
    architecture = str(facts["architecture"])
    newest = _glibc(facts) or _MODERN
    tags = [f"manylinux_2_{minor}" for minor in range(newest[1], _OLD[1] - 1, -1)]
    return tuple(f"{tag}_{architecture}" for tag in (*tags, "manylinux2014"))


def _wheel(facts: Mapping[str, Any]) -> tuple[str, str]:
    architecture, python = str(facts.get("architecture") or ""), _numbers(facts.get("python"))[:2]
    if not architecture or len(python) < 2:
        return "", "which one fits is not known: it does not say its Python and processor"
    named = f"Python {python[0]}.{python[1]}"
    if reason := _no_wheel(facts, architecture, python, named):
        return "", reason
    glibc = _glibc(facts) or _MODERN
    newest, older = _WHEELS.get(python, ("", ""))
    libc = f"glibc {glibc[0]}.{glibc[1]}"
    if glibc < _MIDDLE:
        if not older:
            return "", f"no wheel for {named} runs with {libc}; use Python 3.11 or older there"
        return f"onnxruntime=={older}", f"the newest for {named} with {libc}"
    if newest:
        return f"onnxruntime=={newest}", f"the newest for {named} on {architecture}"
    excluded = f"!={_CRASHES_ON_A72}" if _is_a72(facts) else ""
    also = ", and 1.21.0 crashes on Cortex-A72" if excluded else ""
    untried = "" if python <= _NEWEST_SEEN else ", if there is one yet"
    return f"onnxruntime{excluded}", f"the newest has a wheel for {named}{untried}{also}"


def _no_wheel(
    facts: Mapping[str, Any], architecture: str, python: tuple[int, ...], named: str
) -> str:
    if python < FLOOR:
        return f"{named} is too old; edgeopt's agent and onnxruntime need 3.6 or later"
    if facts.get("system", "Linux") == "Linux" and "glibc" in facts and not _glibc(facts):
        return "this system's C library is not glibc (Alpine's musl?), and no wheel is built for it"
    if architecture not in (*ARCHITECTURES, "arm64"):
        cure = (
            ": it is a 32-bit system, install the 64-bit one" if architecture[:3] == "arm" else ""
        )
        return f"no wheel is built for {architecture}{cure}"
    return ""


def _warning(facts: Mapping[str, Any]) -> str:
    if _is_a72(facts) and facts.get("runtime") == _CRASHES_ON_A72:
        return (
            "onnxruntime 1.21.0 crashes on Cortex-A72 (microsoft/onnxruntime#23957); take another"
        )
    if has_gpu_build(facts) and jetpack_major(facts):
        return (
            "the GPU build that is there belongs to this JetPack: `pip install -U onnxruntime` "
            "would put a CPU build in its place"
        )
    return ""


def _is_a72(facts: Mapping[str, Any]) -> bool:
    text = f"{facts.get('cpu_model')} {facts.get('clusters')}".lower()
    return "0xd08" in text or "cortex-a72" in text


def _glibc(facts: Mapping[str, Any]) -> tuple[int, ...]:
    """Major and minor; empty where it is not glibc or not known."""
    return _numbers(facts.get("glibc"))[:2]


def _numbers(text: object) -> tuple[int, ...]:
    """The numbers of a version; empty where there is none."""
    return tuple(int(part) for part in re.findall(r"\d+", str(text or "")))
