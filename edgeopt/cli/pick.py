"""`edgeopt pick`: which model of a study to take."""

import json
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    study: options.StudyName = None,
    device: Annotated[
        str | None, typer.Option("--for", help="Device; not needed where the study has one.")
    ] = None,
    most: Annotated[
        list[str] | None,
        typer.Option("--max", help="latency=8ms, size=4MB, energy=3mJ, peak_memory=50MB."),
    ] = None,
    least: Annotated[list[str] | None, typer.Option("--min", help="accuracy=92%.")] = None,
    prefer: Annotated[
        str, typer.Option(help="fastest, smallest, most_accurate, least_energy or knee.")
    ] = "fastest",
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Choose one model of a study's front and say why; limits can be repeated."""
    from edgeopt.api.pick import pick

    told = pick(
        study,
        device=device,
        most=tuple(most or ()),
        least=tuple(least or ()),
        prefer=prefer,
        store=store,
        width=options.width(),
    )
    print(json.dumps(told, indent=2) if as_json else told["text"], end="")
