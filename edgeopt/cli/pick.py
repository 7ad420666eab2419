"""`edgeopt pick`: which model of a study to take."""

import json
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    study: options.StudyName = None,
    device: Annotated[str, typer.Option("--for", help="Device name.")] = "local",
    limits: Annotated[
        list[str] | None, typer.Option("--max", help="latency=8ms, size=4MB; repeatable.")
    ] = None,
    prefer: Annotated[str, typer.Option(help="fastest, smallest, most_accurate or knee.")] = (
        "fastest"
    ),
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Choose one model of a study's front and say why."""
    from edgeopt.api.pick import pick

    told = pick(study, device=device, limits=tuple(limits or ()), prefer=prefer, store=store)
    print(json.dumps(told, indent=2) if as_json else told["text"])
