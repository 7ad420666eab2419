"""`edgeopt report`: the Pareto report of a study, again."""

import sys
from typing import Annotated

import typer

from edgeopt.cli import options
from edgeopt.errors import UsageError


def command(
    study: options.StudyName = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="files (all of them), terminal, html, md, json, csv, svg, png or schema.",
        ),
    ] = "files",
    device: Annotated[
        str | None, typer.Option("--for", help="Device whose front svg and png draw.")
    ] = None,
    out: options.Out = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write the report of a study: page, Markdown, JSON, CSV and figures, or one of them.

    One format goes to stdout, or to the file that --out names.
    """
    from edgeopt.api.report import render, report, write_one

    asked = "json" if as_json else form
    if asked == "files":
        files = report(study, out=out, store=store, progress=options.tell)
        print("\n".join(str(path) for path in files.values()))
        return
    if asked == "png" and out is None and sys.stdout.isatty():
        raise UsageError("an image is no text", hint="write it to a file: --out front.png")
    width = options.width()
    content = render(study, asked, store=store, progress=options.tell, device=device, width=width)
    if out is not None:
        print(write_one(out, content))
    elif isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    else:
        print(options.styled(content) if asked == "terminal" else content, end="")
