"""Random graphs with random quantize recipes: how many were drawn, from which seeds, what held.

    python benchmarks/recipe_draws.py [--draws 1000] [--seed 0] [--out FILE.json]

Each draw is a random network of up to twelve nodes, a kind of device, exact rules on or off and an
alternative of every quantizing choice (`edgeopt.testing.random_recipes` has what is asked of it).
A draw that does not hold ends the script with its recipe.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from edgeopt.testing.random_graphs import networks
from edgeopt.testing.random_recipes import Examined, examine_recipe


def drawn(draws: int, start: int) -> list[Examined]:
    """What held of each draw.

    Raises:
        ExamFailed: One does not hold.
    """
    held: list[Examined] = []

    @seed(start)
    @settings(
        max_examples=draws,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(model=networks(), number=st.integers(0, 2**31))
    def draw(model: onnx.ModelProto, number: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            held.append(examine_recipe(model, number, Path(folder)))
        if len(held) % 50 == 0:
            print(f"{len(held)} held", flush=True)

    draw()
    return held


def main() -> None:
    """Draw, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    held = drawn(asked.draws, asked.seed)
    quantized = [one for one in held if one.transforms]
    said = {
        "draws": len(held),
        "seed": asked.seed,
        "quantized": len(quantized),
        "devices": dict(Counter(one.device for one in held)),
        "transforms": dict(Counter(name for one in held for name in one.transforms)),
        "least_db": round(min((float(one.signal_db) for one in quantized), default=0.0), 1),
    }
    print(json.dumps(said, indent=1))
    if asked.out is not None:
        asked.out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
