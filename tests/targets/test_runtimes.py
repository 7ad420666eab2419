"""Which onnxruntime a device can take."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.targets.runtimes import advice, has_gpu_build, jetpack_major, platforms

A72 = "implementer 0x41 part 0xd08"


def facts(python: str, architecture: str = "aarch64", **more: Any) -> dict[str, Any]:
    """What a probe says, as far as the advice looks at it."""
    return {"python": python, "architecture": architecture, "system": "Linux", **more}


@pytest.mark.parametrize(
    ("python", "glibc", "requirement"),
    [
        ("3.6.9", "2.27", "onnxruntime==1.10.0"),
        ("3.7.16", "2.28", "onnxruntime==1.14.1"),
        ("3.8.10", "2.31", "onnxruntime==1.19.2"),
        ("3.8.10", "2.27", "onnxruntime==1.19.2"),
        ("3.8.10", "2.26", "onnxruntime==1.16.3"),
        ("3.9.2", "2.31", "onnxruntime==1.19.2"),
        ("3.10.12", "2.35", "onnxruntime==1.23.2"),
        ("3.10.12", "2.17", "onnxruntime==1.16.3"),
        ("3.11.2", "2.36", "onnxruntime"),
        ("3.12.3", "2.39", "onnxruntime"),
        ("3.13.5", "2.41", "onnxruntime"),
        ("3.14.0", "2.41", "onnxruntime"),
    ],
)
@pytest.mark.parametrize("architecture", ["aarch64", "x86_64"])
def test_the_wheel_of_a_python_and_its_c_library(
    python: str, glibc: str, requirement: str, architecture: str
):
    """The table that pip's index gave."""
    assert advice(facts(python, architecture, glibc=glibc)).requirement == requirement


@pytest.mark.parametrize(
    ("found", "because"),
    [
        (facts("3.11.2", "armv7l"), "32-bit"),
        (facts("3.11.2", "riscv64"), "riscv64"),
        (facts("3.12.3", glibc="2.17"), "Python 3.11 or older"),
        (facts("3.11.2", glibc=None), "musl"),
        (facts("3.5.2"), "too old"),
        ({}, "not known"),
        (facts("3"), "not known"),
    ],
)
def test_where_no_wheel_exists_it_says_why(found: dict[str, Any], because: str):
    """Nothing is asked of pip that cannot be there."""
    told = advice(found)
    assert told.requirements == ()
    assert because in told.why


@pytest.mark.parametrize("version", ["1.10.0", "1.14.1", "1.16.3"])
def test_runtimes_built_for_numpy_1_keep_numpy_1(version: str):
    """Beside numpy 2 they fail at import."""
    python = {"1.10.0": "3.6", "1.14.1": "3.7", "1.16.3": "3.10"}[version]
    assert advice(facts(python, glibc="2.17")).requirements == (
        f"onnxruntime=={version}",
        "numpy<2",
    )


def test_a_raspberry_pi_4_never_gets_the_version_that_crashes_there():
    """1.21.0 stops with SIGILL at import on Cortex-A72."""
    told = advice(facts("3.11.2", cpu_model=A72, glibc="2.36", runtime="1.21.0"))
    assert told.requirement == "onnxruntime!=1.21.0"
    assert "1.21.0" in told.warning
    other = advice(facts("3.11.2", cpu_model="implementer 0x41 part 0xd0b", runtime="1.21.0"))
    assert (other.requirement, other.warning) == ("onnxruntime", "")


@pytest.mark.parametrize(
    ("release", "major", "source"),
    [
        ({"jetpack": "4.6.1"}, 4, "Jetson Zoo"),
        ({"l4t": "35.4.1"}, 5, "Jetson Zoo"),
        ({"jetpack": None, "l4t": "R36.3.0"}, 6, "jetson-ai-lab"),
        ({"l4t": "38.2"}, 7, "no official"),
        ({"jetpack": None, "l4t": None}, 0, ""),
    ],
)
def test_jetpack_tells_where_its_gpu_build_is(release: dict[str, Any], major: int, source: str):
    """In words: edgeopt never installs it."""
    found = facts("3.10.12", glibc="2.35", **release)
    assert jetpack_major(found) == major
    note = advice(found).gpu_note
    assert source in note if source else note == ""


def test_a_gpu_build_is_not_to_be_upgraded():
    """pip would put a CPU build in its place."""
    found = facts("3.10.12", jetpack="6.1", providers=["CUDAExecutionProvider"])
    assert has_gpu_build(found)
    assert "pip install -U" in advice(found).warning


def test_every_older_platform_tag_is_named():
    """pip does not derive them for another platform."""
    tags = platforms(facts("3.8.10", glibc="2.31"))
    assert tags[0] == "manylinux_2_31_aarch64"
    assert tags[-2:] == ("manylinux_2_17_aarch64", "manylinux2014_aarch64")


@given(
    st.tuples(st.integers(2, 4), st.integers(0, 30)),
    st.sampled_from(["aarch64", "x86_64", "armv7l", "ppc64le"]),
    st.one_of(st.none(), st.tuples(st.integers(2, 3), st.integers(0, 60))),
)
def test_there_is_always_a_reason(
    python: tuple[int, int], architecture: str, glibc: tuple[int, int] | None
):
    """Whatever a board says, it is told what to install or why nothing fits."""
    text = None if glibc is None else f"{glibc[0]}.{glibc[1]}"
    told = advice(facts(f"{python[0]}.{python[1]}.1", architecture, glibc=text))
    assert told.why
    assert (told.requirement == "") == (told.requirements == ())
