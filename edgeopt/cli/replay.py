"""`edgeopt replay`: a recipe onto a model."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    recipe: Annotated[Path, typer.Argument(help="A recipe file.")],
    on: Annotated[str, typer.Option("--on", help="The model: a file or a zoo name.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    data: options.Data = None,
    seed: Annotated[int, typer.Option(help="Of data splitting.")] = 0,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Apply a recipe to a model, also to one with retrained weights, and verify it."""
    from edgeopt.api.replay import replay

    done = replay(recipe, on, out=out, data=data, store=store, seed=seed, progress=_tell)
    if as_json:
        told = {
            "path": str(done.path),
            "structure": done.structure,
            "weights": done.weights,
            "same_baseline": done.same_baseline,
            "recipe": done.recipe.text.splitlines(),
        }
        print(json.dumps({"schema_version": 1, **told}, indent=2))
        return
    print(f"{done.path}: {len(done.recipe.actions)} actions applied and verified")
    print(f"structure {done.structure}")
    print(f"weights   {done.weights}")
    if not done.same_baseline:
        print("on another file than the recipe was written for: data-dependent parts computed anew")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
