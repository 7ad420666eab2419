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
    wait: Annotated[
        str | None, typer.Option("--wait", help="Wait so long for an idle machine: 60s.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help="Also run at a rate: 30/s. Deadlines, energy.")
    ] = None,
    energy: Annotated[
        bool, typer.Option("--energy/--no-energy", help="Energy, where there is a sensor.")
    ] = True,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what was measured before.")
    ] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Measure a model; beside it runs itself, or another model with `--against`."""
    from edgeopt.api.measure import MeasureRequest, measure_model
    from edgeopt.units import parse_duration_s, parse_rate_hz

    request = MeasureRequest(
        model=model,
        device=device,
        data=data,
        against=against,
        protocol=protocol,
        shapes=dict(shape_of(text) for text in shape or ()),
        threads=threads,
        wait_s=0.0 if wait is None else parse_duration_s(wait),
        rate_hz=None if rate is None else parse_rate_hz(rate),
        energy=energy,
        fresh=fresh,
        store=store,
    )
    told = measure_model(request, _tell)
    print(json.dumps(told, indent=2) if as_json else told["text"])


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
