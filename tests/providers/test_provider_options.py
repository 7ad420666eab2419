"""Options of providers and session configuration: a misspelt one is refused, never measured."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

import edgeopt
from edgeopt.api.providers import start_options, usual_runtimes
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.targets.local import LocalTarget
from edgeopt.targets.profiles import list_profiles, load_profile
from edgeopt.testing.target_exam import material

AGENT = Path(edgeopt.__file__).parent / "device_agent"
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
OPENVINO, TENSORRT = "OpenVINOExecutionProvider", "TensorrtExecutionProvider"


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The agent's module; its siblings have plain names, as in the bundle."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(AGENT))
    import options  # pyright: ignore[reportMissingImports]

    yield options
    for name in set(sys.modules) - before:
        if str(AGENT) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("profile", list_profiles())
def test_what_profiles_and_usual_settings_set_is_taken(options: Any, profile: str) -> None:
    """The options that a study of each shipped profile starts from, on each of its providers."""
    kind = load_profile(profile)
    for provider in kind.providers:
        user = RuntimeSettings(provider=provider, options=start_options(provider, kind))
        for _, settings in (("", user), *usual_runtimes(user, kind)):
            own, entries = options.split(onnxruntime, provider, settings.options)
            assert {**own, **entries} == settings.options


@pytest.mark.parametrize(
    ("provider", "given"),
    [
        (CPU, {}),
        (CUDA, {"cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}),
        (TENSORRT, {"trt_fp16_enable": "True", "trt_builder_optimization_level": "3"}),
        (OPENVINO, {"device_type": "CPU", "precision": "ACCURACY"}),
    ],
)
def test_known_options_pass(options: Any, provider: str, given: Mapping[str, str]) -> None:
    """They go to the provider, unchanged."""
    assert options.split(onnxruntime, provider, given) == (given, {})


def test_session_configuration_is_told_apart(options: Any) -> None:
    """Full names of the runtime's session configuration go to the session."""
    given = {"session.set_denormal_as_zero": "1", "device_type": "CPU"}
    own, entries = options.split(onnxruntime, OPENVINO, given)
    assert own == {"device_type": "CPU"}
    assert entries == {"session.set_denormal_as_zero": "1"}


@pytest.mark.parametrize(
    ("provider", "given", "words"),
    [
        (CPU, {"trt_fp16_enable": "True"}, "has no such option"),
        (TENSORRT, {"trt_fp16_enabled": "True"}, "has no such option"),
        (TENSORRT, {"trt_fp16_enable": "1"}, "one of True, False"),
        (TENSORRT, {"trt_engine_cache_path": "/tmp"}, "agent's folder"),
        (CUDA, {"cudnn_conv_algo_search": "FAST"}, "one of EXHAUSTIVE"),
        (CUDA, {"device_id": "first"}, "takes a number"),
        (OPENVINO, {"num_of_threads": "4"}, "set by `threads`"),
        (OPENVINO, {"cache_dir": "x"}, "agent's folder"),
        ("QNNExecutionProvider", {"backend_path": "x"}, "has no such option"),
        (CPU, {"session.set_denormal_as_zeros": "1"}, "has no such option"),
        (CPU, {"session.intra_op.allow_spinning": "1"}, "set by `spinning`"),
        (CPU, {"session.set_denormal_as_zero": "yes"}, "one of 0, 1"),
        (CPU, {"session.set_denormal_as_zero": 1}, "values are texts"),
    ],
)
def test_others_are_refused(
    options: Any, provider: str, given: Mapping[str, Any], words: str
) -> None:
    """With the name of the option and the reason."""
    with pytest.raises(Exception, match=next(iter(given))) as caught:
        options.split(onnxruntime, provider, given)
    assert getattr(caught.value, "code", "") == "bad_option"
    assert words in str(caught.value)


def test_what_this_runtime_does_not_know_is_refused(options: Any, tmp_path: Path) -> None:
    """The runtime has no list of what it takes: names are looked up in its own code."""

    class Old:
        __version__ = "1.10.0"
        __file__ = str(tmp_path / "__init__.py")

    (tmp_path / "capi").mkdir()
    (tmp_path / "capi" / "onnxruntime_pybind11_state.so").write_bytes(
        b"\0session.set_denormal_as_zero\0"
    )
    given = {"session.set_denormal_as_zero": "1"}
    assert options.split(Old, CPU, given) == ({}, given)
    with pytest.raises(Exception, match=r"onnxruntime 1\.10\.0 does not know it"):
        options.split(Old, CPU, {"session.dynamic_block_base": "4"})


def test_the_agent_refuses_and_applies(tmp_path: Path) -> None:
    """Over the pipe: a refusal is about the request, and a known entry opens a session."""
    model, feeds = material(tmp_path)
    with LocalTarget(folder=tmp_path) as target:

        def ask(given: Mapping[str, str]) -> Any:
            settings = {"provider": CPU, "threads": 1, "options": given}
            return target.request(
                "footprint", deadline_s=60, model=str(model), feeds=str(feeds), settings=settings
            )

        refused = ask({"session.no_such_key": "1"})
        assert refused["error"]["code"] == "bad_option"
        assert "session.set_denormal_as_zero" in refused["error"]["hint"]
        assert ask({"session.set_denormal_as_zero": "1"})["ok"]
