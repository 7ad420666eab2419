"""`edgeopt report`: the Pareto report of a study, again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    study: options.StudyName = None,
    output: Annotated[str, typer.Option("--format", "-f", help="files, terminal, md, json.")] = (
        "files"
    ),
    out: options.Out = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write the report of a study: HTML page, Markdown, JSON and CSV."""
    from edgeopt.api.report import render, report

    if as_json or output != "files":
        print(render(study, "json" if as_json else output, store=store))
        return
    files = report(study, out=out, store=store)
    print(json.dumps({k: str(v) for k, v in files.items()}) if as_json else _listed(files))


def _listed(files: Mapping[str, Path]) -> str:
    return "\n".join(str(path) for path in files.values())
