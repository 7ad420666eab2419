"""Options that several commands share, spelled once."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Model = Annotated[str, typer.Argument(help="An ONNX file, or a name from `edgeopt zoo list`.")]
Device = Annotated[str, typer.Option("--device", "-d", help="Where to measure; `local` is here.")]
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
