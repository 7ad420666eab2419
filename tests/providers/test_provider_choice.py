"""Which provider a study runs on, and which settings are worth trying beside the user's."""

from collections.abc import Mapping
from typing import Any

import pytest

from edgeopt.api.providers import (
    alternatives,
    choose_provider,
    full_name,
    usual_runtimes,
)
from edgeopt.core.action import Recipe
from edgeopt.core.candidate import Candidate, RuntimeSettings
from edgeopt.core.codec import decode, encode
from edgeopt.core.device import DeviceEntry
from edgeopt.core.profile import DeviceProfile, Threads
from edgeopt.errors import DeviceError, UsageError

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
OPENVINO, TENSORRT = "OpenVINOExecutionProvider", "TensorrtExecutionProvider"
ENTRY = DeviceEntry(name="board")
JETSON = DeviceProfile(
    name="jetson",
    title="A Jetson",
    architecture="aarch64",
    providers=(TENSORRT, CUDA, CPU),
    provider_options={TENSORRT: {"trt_max_workspace_size": "1000000000"}},
)
PLAIN = DeviceProfile(name="plain", title="A board", architecture="aarch64")
BAD = {"ok": False, "text": "no kernel image is available"}


def facts(*providers: str, **more: Any) -> Mapping[str, Any]:
    return {"providers": list(providers), **more}


def test_the_profile_decides_by_its_order() -> None:
    """Its first provider that the runtime lists, with the options that the profile gives."""
    provider, options, why = choose_provider(ENTRY, JETSON, facts(TENSORRT, CUDA, CPU))
    assert (provider, why) == (TENSORRT, "the first of jetson")
    assert options == {"trt_max_workspace_size": "1000000000"}
    second = choose_provider(ENTRY, JETSON, facts(CPU, CUDA))
    assert second.provider == CUDA
    assert second.why == f"the runtime lacks {TENSORRT}"
    assert second.options == {"cudnn_conv_algo_search": "HEURISTIC"}


def test_what_was_seen_not_to_run_is_passed_over() -> None:
    """A wheel for other chips lists CUDA: the proof decides, the list does not."""
    proven = {TENSORRT: BAD, CUDA: BAD, CPU: {"ok": True, "text": ""}}
    found = choose_provider(ENTRY, JETSON, facts(TENSORRT, CUDA, CPU, providers_proven=proven))
    assert found.provider == CPU
    assert f"{CUDA} does not run there" in found.why


def test_nothing_runs() -> None:
    """Where not even the CPU ran, that is trouble of the device, with each reason."""
    with pytest.raises(DeviceError, match="no execution provider") as caught:
        choose_provider(ENTRY, PLAIN, facts(CPU, providers_proven={CPU: BAD}))
    assert "no kernel image" in caught.value.hint
    with pytest.raises(DeviceError, match="cannot be imported"):
        choose_provider(ENTRY, PLAIN, facts(runtime_error="onnxruntime cannot be imported"))


@pytest.mark.parametrize("name", ["openvino", "OpenVINO", OPENVINO, OPENVINO.lower()])
def test_the_entry_decides_before_the_profile(name: str) -> None:
    """A provider can be named in short; it starts from the CPU, whatever the machine has."""
    entry = DeviceEntry(name="lab", provider=name)
    found = choose_provider(entry, PLAIN, facts(OPENVINO, CPU))
    assert found == (OPENVINO, {"device_type": "CPU"}, "named for the device")


def test_an_entry_is_never_replaced() -> None:
    """Named but not there, or there but not running: an error, not the next one."""
    with pytest.raises(UsageError, match="no provider 'openvno'") as caught:
        choose_provider(DeviceEntry(name="lab", provider="openvno"), PLAIN, facts(OPENVINO, CPU))
    assert "openvino" in caught.value.hint
    with pytest.raises(UsageError, match="it lists CPUExecutionProvider"):
        full_name("tensorrt", [CPU])
    entry = DeviceEntry(name="lab", provider="cuda")
    with pytest.raises(DeviceError, match="no kernel image"):
        choose_provider(entry, JETSON, facts(CUDA, CPU, providers_proven={CUDA: BAD}))


def test_usual_settings_of_a_provider() -> None:
    """What a competent user would set, by name, on top of what the session starts from."""
    user = RuntimeSettings(provider=TENSORRT, options={"trt_max_workspace_size": "1"})
    ((name, runtime),) = usual_runtimes(user, JETSON)
    assert name == "tensorrt_fp16"
    assert runtime.options == {"trt_max_workspace_size": "1", "trt_fp16_enable": "True"}
    assert usual_runtimes(runtime, JETSON) == ()
    assert usual_runtimes(RuntimeSettings(), PLAIN) == ()


CLUSTERS = [
    {"name": "Cortex-A76", "cores": [4, 5, 6, 7], "max_hz": 2.4e9, "capacity": 1024},
    {"name": "Cortex-A55", "cores": [0, 1, 2, 3], "max_hz": 1.8e9, "capacity": 414},
]


def test_alternatives_on_big_and_little_cores() -> None:
    """One thread, the big cores alone and pinned, all; with and without spinning; no doubles."""
    user = RuntimeSettings(threads=4)
    found = alternatives(PLAIN, {"affinity": 8, "clusters": CLUSTERS}, user)
    assert found[0] == user
    assert found[1] == RuntimeSettings(threads=4, affinity=(4, 5, 6, 7))
    assert {each.threads for each in found} == {1, 4, 8}
    assert RuntimeSettings(threads=8, spinning=False) in found
    assert len({each.text for each in found}) == len(found)


def test_alternatives_keep_to_what_the_device_grants() -> None:
    """Never more threads than the mask and the quota allow; the profile's own counts as well."""
    profile = DeviceProfile(
        name="p", title="", architecture="x86_64", threads=Threads(candidates=(1, 2, 3, 16))
    )
    found = alternatives(profile, {"affinity": 8, "cpu_quota": 3.5}, RuntimeSettings())
    assert {each.threads for each in found} == {1, 2, 3}
    assert not any(each.affinity for each in found)
    single = alternatives(PLAIN, {"affinity": 1}, RuntimeSettings())
    assert single == (RuntimeSettings(),)


def test_a_gpu_has_no_threads_to_choose() -> None:
    """What does not compute on the CPU gets its own options only."""
    user = RuntimeSettings(provider=CUDA, options={"cudnn_conv_algo_search": "HEURISTIC"})
    found = alternatives(JETSON, {"affinity": 6, "clusters": CLUSTERS}, user)
    assert [each.threads for each in found] == [1, 1]
    assert found[1].options == {"cudnn_conv_algo_search": "EXHAUSTIVE"}


def test_processors_are_part_of_the_settings() -> None:
    """They make another candidate, read back from JSON, and without them old keys stay."""
    recipe = Recipe(baseline="sha256:" + "0" * 64)
    pinned = RuntimeSettings(threads=2, affinity=(4, 5))
    assert pinned.text == "cpu threads=2 cpus=4,5"
    assert RuntimeSettings(threads=2).text == "cpu threads=2"
    plain = Candidate(recipe=recipe, runtime=RuntimeSettings(threads=2))
    assert Candidate(recipe=recipe, runtime=pinned).key != plain.key
    assert decode(RuntimeSettings, encode(pinned)) == pinned
    old = {key: value for key, value in encode(plain.runtime).items() if key != "affinity"}
    assert decode(RuntimeSettings, old) == plain.runtime
