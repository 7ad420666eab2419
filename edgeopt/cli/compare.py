"""`edgeopt compare`: what differs between two models."""

import json
from typing import Annotated

import typer

from edgeopt.cli import options

Which = Annotated[str, typer.Argument(help="c12 or `given` of a study, or an ONNX file.")]


def command(
    a: Which,
    b: Which,
    study: Annotated[
        str | None, typer.Option("--study", help="Id or its beginning; else the latest.")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--for", help="Device on which `given` is meant.")
    ] = None,
    data: options.Data = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="x=1x3x224x224; for free axes of files without data.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every layer, not only those that changed most.")
    ] = False,
    form: Annotated[str, typer.Option("--format", "-f", help="text, md or json.")] = "text",
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Show what changes from A to B: metrics with intervals, and layer by layer."""
    from edgeopt.api.compare import compare, shown
    from edgeopt.cli.run import shape_of

    found = compare(
        a,
        b,
        study=study,
        device=device,
        data=data,
        store=store,
        progress=options.tell,
        shapes=dict(shape_of(text) for text in shape or ()),
    )
    if as_json or form == "json":
        print(json.dumps(found, indent=2))
    else:
        print(shown(found, form, everything=everything, width=options.width()), end="")
