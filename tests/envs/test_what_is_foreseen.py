"""What an environment says of candidates before they are taken, of groups, and of its device."""

import warnings
from pathlib import Path
from typing import Any

import pytest
from gymnasium.utils.env_checker import check_env

from edgeopt import envs
from edgeopt.api.costs import FOLDER
from edgeopt.api.device import Device
from edgeopt.api.device_numbers import DEVICE_COLUMNS, device_numbers
from edgeopt.api.environment import open_environment
from edgeopt.api.foreseen import CHANGE_COLUMNS, GROUP_COLUMNS
from edgeopt.api.providers import ProviderChoice
from edgeopt.core import digest as digests
from edgeopt.core.device import DeviceEntry
from edgeopt.estimate.cost_table import CostTable, Profiled
from edgeopt.estimate.operators import Operator
from edgeopt.targets.profiles import load_profile, search_path
from edgeopt.testing.graphs import Builder
from edgeopt.testing.transform_exam import opened
from edgeopt.transforms.rewriting import CHANGE_COLUMNS as REWRITE_COLUMNS
from edgeopt.transforms.rewriting import RULE_COLUMNS, Rewriting
from edgeopt.transforms.rules.catalogue import rules_on_shelves

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits"
FIRST = 2


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory):
    """The digits net, site by site, with what is foreseen."""
    folder = tmp_path_factory.mktemp("store")
    model, data = DIGITS / "digits.onnx", str(DIGITS / "digits.npz")
    with open_environment(model, data=data, store=folder, max_steps=6) as made:
        yield made


def slot_of(env: envs.EdgeOptEnv, start: str) -> int:
    """The slot of the first action whose text begins so."""
    return FIRST + [action.text.startswith(start) for action in env.slot_actions()].index(True)


def changes(observation: dict[str, Any], slot: int) -> dict[str, float]:
    return dict(zip(CHANGE_COLUMNS, observation["action_change"][slot].tolist(), strict=True))


def test_the_checker_takes_an_opened_environment(env: envs.EdgeOptEnv):
    """Groups, changes, preference and device are there, within their bounds, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)
    seen, _ = env.reset(seed=0)
    wanted = {"group_x", "group_nodes", "action_group", "action_change", "preference", "device"}
    assert wanted <= set(seen)
    assert seen["group_x"].shape[1] == len(GROUP_COLUMNS)
    assert seen["device"].shape == (len(DEVICE_COLUMNS),)


def test_what_pruning_saves_is_foreseen(env: envs.EdgeOptEnv):
    """The share of multiplications that a pruned layer was said to save is what the step pays."""
    seen, _ = env.reset(seed=0)
    slot = slot_of(env, 'channels_greedy@1 "conv_6" keep=16')
    told = changes(seen, slot)
    _, _, _, _, info = env.step(slot)
    saved = dict(zip(info["metrics"], info["vector_reward"], strict=True))
    assert told["known"] == 1.0
    assert told["damage"] > 0
    assert -told["macs"] == pytest.approx(saved["macs"], abs=0.01)
    assert -told["size"] == pytest.approx(saved["size_bytes"], abs=0.02)


def test_a_layer_is_known_under_the_name_it_has_before_a_rule_moved_it(env: envs.EdgeOptEnv):
    """A convolution in front of a normalization, and the two as one, are one group."""
    seen, _ = env.reset(seed=0)
    slot = slot_of(env, 'static_qdq@2 "conv_5"')
    group, told = int(seen["action_group"][slot, 0]), changes(seen, slot)
    seen, *_ = env.step(slot_of(env, 'fold_batchnorm@1 "batchnormalization_5"'))
    slot = slot_of(env, 'static_qdq@2 "batchnormalization_5"')
    assert int(seen["action_group"][slot, 0]) == group
    assert changes(seen, slot) == told


def test_groups_say_what_was_done(env: envs.EdgeOptEnv):
    """One of five normalizations folded: a part of its group, and of what that changes."""
    seen, _ = env.reset(seed=0)
    slot = slot_of(env, "fold_batchnorm@1")
    group = int(seen["action_group"][slot, 0]) - 1
    assert seen["group_x"][group, 0] == 0
    latency = changes(seen, slot)["latency"]
    seen, *_ = env.step(slot)
    done = dict(zip(GROUP_COLUMNS, seen["group_x"][group].tolist(), strict=True))
    assert 0 < done["done"] < 1
    assert done["latency"] == pytest.approx(latency)
    seen, *_ = env.step(slot_of(env, "fold_batchnorm@1"))
    assert seen["group_x"][group, 0] == pytest.approx(2 * done["done"])


def test_what_no_search_decides_is_not_foreseen(env: envs.EdgeOptEnv):
    """A repair that takes minutes is no choice: it belongs to no group, and nothing is claimed."""
    env.reset(seed=0)
    seen, *_ = env.step(slot_of(env, 'static_qdq@2 "conv_6"'))
    slot = slot_of(env, "round_weights")
    assert seen["action_group"][slot, 0] == 0
    assert not seen["action_change"][slot].any()


def test_predictions_can_be_left_out(tmp_path: Path):
    """Then nothing is built when the environment is opened."""
    model = DIGITS / "digits.onnx"
    with open_environment(model, store=tmp_path, predictions=False) as made:
        seen, _ = made.reset(seed=0)
    assert "action_change" not in seen
    assert "device" in seen


def test_every_rewrite_changes_what_was_foreseen():
    """Sums over nodes by each rule at each site, as shares of the given graph's."""
    b, value = Builder(), "x"
    for index in range(3):
        b.conv(value, f"c{index}", (4, 4))
        b.batchnorm(f"c{index}", f"n{index}", 4)
        value = b.node("Relu", [f"n{index}"], f"r{index}")
    shape = ("N", 4, 8, 8)
    graph = opened(b.model([("x", "float32", shape)], [(value, "float32", shape)]))
    space = Rewriting(graph, rules_on_shelves(), baseline="sha256:" + "0" * 64)
    env = envs.make(space, envs.StaticCostEvaluator(space))
    seen, _ = env.reset(seed=0)
    assert seen["group_x"].shape == (len(rules_on_shelves()), len(RULE_COLUMNS))
    compared = 0
    for slot in range(FIRST, FIRST + len(env.slot_actions())):
        told = dict(zip(REWRITE_COLUMNS, seen["action_change"][slot].tolist(), strict=True))
        before = space.static_cost(env.recipe)
        after, _, _, _, info = env.step(slot)
        assert ("rejected" in info) == (told["known"] == 0)
        if told["known"]:
            found = space.static_cost(env.recipe)
            nodes = (found["nodes"] - before["nodes"]) / before["nodes"]
            saved = [*info["vector_reward"], -nodes]
            assert [-told[n] for n in REWRITE_COLUMNS[:4]] == pytest.approx(saved, abs=1e-6)
            assert after["group_x"][:, 1].sum() == 1
            compared += 1
        env.undo()
    assert compared > 3


def device(profile: str, provider: str = "CPUExecutionProvider", **facts: Any) -> Device:
    """A device of a kind that nobody opened: what is known of it, and no door."""
    nothing: Any = None
    return Device(
        name="board",
        entry=DeviceEntry(name="board", origin="test"),
        target=nothing,
        board=nothing,
        facts=facts,
        fingerprint=digests.of_text(profile),
        profile=load_profile(profile, search_path(Path.cwd())).on(provider),
        provider=ProviderChoice(provider, {}, "test"),
    )


def numbers(device: Device, folder: Path) -> dict[str, float]:
    return dict(zip(DEVICE_COLUMNS, device_numbers(device, folder), strict=True))


def test_devices_have_different_numbers(tmp_path: Path):
    """By architecture, features and provider; what is not known is 0."""
    here = numbers(device("x86-vnni", features=["avx2", "vnni"], cores=3), tmp_path)
    assert (here["x86_64"], here["vnni"], here["dotprod"], here["cores"]) == (1, 1, 0, 2)
    board = numbers(device("jetson-orin-nano", "TensorrtExecutionProvider"), tmp_path)
    assert (board["aarch64"], board["x86_64"], board["Tensorrt"], board["CPU"]) == (1, 0, 1, 0)
    assert board["int8_tops"] > here["int8_tops"] == 0
    assert here["profiled"] == here["macs_rate"] == 0


def test_a_profiled_device_says_how_fast_it_was(tmp_path: Path):
    """Rates of its cost table, twice as high where operators took half the time."""
    rates: list[float] = []
    for profile, seconds in (("x86-vnni", 1e-3), ("x86-avx2", 2e-3)):
        one = device(profile)
        table = CostTable(device="board", runtime="r")
        large = Operator.parse("MatMul||float[64,64];float[64,4096]|float[64,4096]")
        small = Operator.parse("MatMul||float[1,64];float[64,64]|float[1,64]")
        operators = ((large.key, 64 * seconds), (small.key, seconds / 1000))
        profiled = Profiled(model="sha256:0", latency_s=65 * seconds, operators=operators)
        name = digests.short(digests.of_text(one.fingerprint))
        (tmp_path / FOLDER).mkdir(exist_ok=True)
        table.learned(profiled).write(tmp_path / FOLDER / f"{name}-r.json")
        found = numbers(one, tmp_path)
        assert found["profiled"] == 1
        rates.append(found["macs_rate"])
    assert rates[0] - rates[1] == pytest.approx(1.0, abs=0.01)
