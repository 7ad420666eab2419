"""`edgeopt measure`: one measurement with its statistics and verdict."""

import json
import sys
from typing import Annotated

import typer

from edgeopt.cli import options
from edgeopt.cli.run import shape_of


def command(
    model: options.Model,
    device: options.Device = "local",
    data: options.Data = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Another model to compare with.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="quick, normal or publish.")] = "normal",
    shape: Annotated[list[str] | None, typer.Option(help="x=1x3x224x224.")] = None,
    threads: options.Threads = 1,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Measure a model; beside it runs itself, or another model with `--against`."""
    from edgeopt.api.measure import measure_model

    shapes = dict(shape_of(text) for text in shape or ())
    told = measure_model(
        model,
        device=device,
        data=data,
        against=against,
        protocol=protocol,
        shapes=shapes,
        threads=threads,
        store=store,
        progress=_tell,
    )
    print(json.dumps(told, indent=2) if as_json else told["text"])


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
