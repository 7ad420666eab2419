"""Random graphs with random recipes of every quantizing scheme: what must hold of each."""

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeopt.testing import graphs
from edgeopt.testing.random_graphs import networks
from edgeopt.testing.random_recipes import examine_recipe, offers

QUICK = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@QUICK
@given(model=networks(), seed=st.integers(0, 2**31))
def test_random_networks(
    tmp_path_factory: pytest.TempPathFactory, model: onnx.ModelProto, seed: int
) -> None:
    """Convolutions, activations and branches; `benchmarks/recipe_draws.py` draws many more."""
    examine_recipe(model, seed, tmp_path_factory.mktemp("recipe"))


@pytest.mark.parametrize("name", ["gemm_chain", "lstm", "mobilenet_block"])
def test_layers_that_random_networks_lack(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Products, recurrent layers and gates, three recipes each; some of them quantize."""
    done = [
        examine_recipe(getattr(graphs, name)(), seed, tmp_path_factory.mktemp("recipe"))
        for seed in range(3)
    ]
    assert any(one.transforms for one in done)


def test_every_scheme_of_device_types_is_drawn() -> None:
    """The devices differ in what they are offered."""
    kinds = {offer.profile.quantization for offer in offers().values()}
    assert len(kinds) == len(offers()) - 1
