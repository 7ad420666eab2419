"""`edgeopt export`: a folder that runs elsewhere."""

import json
from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    study: Annotated[str, typer.Argument(help="Study id or its beginning.")],
    trial: Annotated[str, typer.Argument(help="Trial id, such as c12.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")],
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Write a trial's model with settings, samples, recipe, card and a verify script; run it."""
    from edgeopt.api.export import export

    done = export(study, trial, out, store=store)
    if as_json:
        told = {"folder": str(done.folder), "files": done.files, "verified": done.verified}
        print(json.dumps({"schema_version": 1, **told}, indent=2))
        return
    print(f"{done.folder}: {', '.join(done.files)}")
    print(f"verify.py says: {done.verified}")
