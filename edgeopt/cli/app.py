"""The command line's root. Commands live one a file and import what they need when called."""

import json
import sys
import traceback
import warnings
from typing import Annotated, TextIO

import typer

from edgeopt import __version__
from edgeopt.cli import (
    compare,
    device,
    doctor,
    export,
    gate,
    inspect,
    measure,
    pick,
    plugins,
    replay,
    report,
    train,
    zoo,
)
from edgeopt.cli import run as run_command
from edgeopt.errors import EdgeOptError

app = typer.Typer(
    name="edgeopt",
    help="Measured Pareto fronts of deployable ONNX models, per device.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    *(run_command, measure, report, compare, inspect, pick),
    *(export, replay, doctor, plugins, train),
):
    app.command(module.__name__.rpartition(".")[2])(module.command)
app.add_typer(device.app, name="device")
app.add_typer(zoo.app, name="zoo")
app.add_typer(gate.app, name="gate")


def _version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measured Pareto fronts of deployable ONNX models, per device."""


def run() -> None:
    """Parse, dispatch, and turn errors into messages and exit codes (docs/design.md section 7)."""
    raise SystemExit(_dispatch())


def _dispatch() -> int:
    warnings.showwarning = _warn
    try:
        app()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except EdgeOptError as error:
        return _say(error)
    except KeyboardInterrupt:
        print("interrupted; what was measured is saved", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception:
        traceback.print_exc()
        print(
            "edgeopt: this is a defect of edgeopt. What was measured is saved; please report the "
            "lines above with the command that you gave.",
            file=sys.stderr,
        )
        return EdgeOptError.exit_code
    return 0


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A line on stderr; the source line that Python would quote says nothing to a user."""
    print(f"edgeopt: warning: {message}", file=file or sys.stderr)


def _say(error: EdgeOptError) -> int:
    print(f"edgeopt: {error}", file=sys.stderr)
    if "--json" in sys.argv:
        told = {"what": error.what, "where": error.where, "hint": error.hint}
        print(json.dumps({"schema_version": 1, "exit_code": error.exit_code, "error": told}))
    return error.exit_code
