"""Options that several commands share, spelled once."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer


def complete_device(incomplete: str) -> list[str]:
    """Names of devices for the shell; of a list, its last name is completed."""
    from edgeopt.targets.devices import device_names

    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in device_names() if name.startswith(last)]


def width() -> int:
    """Characters of a line: the terminal's, between 80 and 160; 100 where there is none."""
    if not sys.stdout.isatty():
        return 100
    return min(max(shutil.get_terminal_size((100, 24)).columns, 80), 160)


def tell(line: str) -> None:
    """Progress and messages: results have stdout to themselves."""
    print(line, file=sys.stderr, flush=True)


def styled(page: str) -> str:
    """A page in weights and colours where a terminal reads it and nobody said NO_COLOR."""
    from edgeopt.report.terminal_style import styled as with_styles

    dumb = os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR")
    return page if dumb or not sys.stdout.isatty() else with_styles(page)


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Model = Annotated[str, typer.Argument(help="An ONNX file, or a name from `edgeopt zoo list`.")]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        "-d",
        help="Where to measure: any name that `ssh` takes; `local` is here.",
        autocompletion=complete_device,
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", help="Labelled data: FILE.npz, a folder, or python:package.function."),
]
Metric = Annotated[
    str | None, typer.Option("--metric", help="Accuracy metric (see `edgeopt plugins`).")
]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of the runtime.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.")]
StudyName = Annotated[
    str | None, typer.Argument(help="Study id or its beginning; the latest when left out.")
]
Store = Annotated[
    Path | None,
    typer.Option("--store", envvar="EDGEOPT_STORE", help="Where studies are kept (.edgeopt)."),
]
