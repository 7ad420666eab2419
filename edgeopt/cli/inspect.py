"""`edgeopt inspect`: what is inside a model, and what can be done with it."""

import json
import sys
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    model: options.Model,
    device: options.Device = "local",
    data: options.Data = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity", help="What each choice does alone: damage, and predicted gain."
        ),
    ] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Say what is in a model and which actions the device's profile offers for it."""
    from edgeopt.api.inspect import inspect_model

    told = inspect_model(
        model, device=device, data=data, store=store, progress=_tell, sensitivity=sensitivity
    )
    print(json.dumps(told, indent=2) if as_json else told["text"])


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
