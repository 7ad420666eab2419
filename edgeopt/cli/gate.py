"""`edgeopt gate`: check, update, explain, waive."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeopt.cli import options

if TYPE_CHECKING:
    from edgeopt.errors import StorageError
    from edgeopt.gate.verdicts import Verdicts

app = typer.Typer(no_args_is_help=True, help="Keep a project's model inside its budgets.")

Config = Annotated[Path, typer.Option("--config", "-c", help="The project's settings.")]
Base = Annotated[str, typer.Option("--base", help="Compare with FILE, or with git:REF.")]
Time = Annotated[str, typer.Option("--time", help="For the measurements of each device.")]
ModelFile = Annotated[Path | None, typer.Option("--model", help="Instead of the file's model.")]


@app.command()
def check(
    config: Config = Path("edgeopt.toml"),
    model: ModelFile = None,
    base: Base = "",
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Use devices, or files and lock alone.")
    ] = True,
    static: Annotated[
        bool, typer.Option("--static", help="Only budgets that the file alone decides.")
    ] = False,
    time: Time = "5m",
    inconclusive: Annotated[
        str, typer.Option(help="What noise left open does: fail (exit 4), pass or report.")
    ] = "fail",
    forms: Annotated[
        list[str] | None,
        typer.Option(
            "--format", help="text, json, junit, sarif, github, gitlab, ...; or FORM=FILE."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Judge every budget. 0 kept, 1 missed, 3 device trouble, 4 undecided, 5 no budgets."""
    from edgeopt.api.gate import check as run
    from edgeopt.plugins import GATE_FORMATS

    asked = [*(forms or ()), *(["json"] if as_json else ())] or ["text"]
    wanted = [(name, place) for name, _, place in (form.partition("=") for form in asked)]
    renders = [(GATE_FORMATS.load(name), place) for name, place in wanted]
    request = _request(config, model, base, time, measure, inconclusive)
    verdicts = run(replace(request, static=static), _tell)
    trouble = [_say(render(verdicts), place) for render, place in renders]
    _inside_github(verdicts, {name for name, _ in wanted})
    for error in filter(None, trouble):  # after all that could be said was said
        raise error
    raise typer.Exit(verdicts.code)


@app.command()
def update(
    config: Config = Path("edgeopt.toml"),
    model: ModelFile = None,
    base: Base = "",
    time: Time = "5m",
    candidate: Annotated[
        str,
        typer.Option(
            "--from", help="Take the limits from FILE, an exported folder, or a trial (c12)."
        ),
    ] = "",
    study: Annotated[
        str | None, typer.Option("--study", help="Of the trial; the latest when left out.")
    ] = None,
    store: options.Store = None,
) -> None:
    """Measure every budget on its device and write the receipts into the lock."""
    from edgeopt.api.gate_update import Update
    from edgeopt.api.gate_update import update as run

    asked = Update(candidate=candidate, study=study, store=store)
    for line in run(_request(config, model, base, time), _tell, asked):
        print(line)


@app.command()
def explain(budget: str, config: Config = Path("edgeopt.toml")) -> None:
    """What a budget means, which evidence it takes, and what the lock and waivers say of it."""
    from edgeopt.api.gate_words import explained

    print(explained(config, budget))


@app.command()
def waive(
    budget: str,
    until: Annotated[str, typer.Option(help="Last day, 2027-03-01.")],
    reason: Annotated[str, typer.Option(help="For who reads it later.")],
    ceiling: Annotated[str, typer.Option(help="Most that is accepted meanwhile.")] = "",
    config: Config = Path("edgeopt.toml"),
) -> None:
    """Accept a missed budget for a while; written into the file, whose comments stay."""
    import datetime

    from edgeopt.api.gate_words import waived

    today = datetime.date.today()
    print(waived(config, budget, until=until, reason=reason, ceiling=ceiling, today=today))


def _request(
    config: Path,
    model: Path | None,
    base: str,
    time: str,
    measure: bool = True,
    undecided: str = "fail",
):
    import datetime

    from edgeopt.api.gate_case import GateRequest
    from edgeopt.units import parse_duration_s

    return GateRequest(
        config=config,
        model=model,
        base=base,
        measure=measure,
        time_s=parse_duration_s(time),
        undecided=undecided,
        today=datetime.date.today(),
        root=_root(),
    )


def _root() -> Path | None:
    """The repository's root where a server runs this; its widgets know no other folder."""
    named = os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR")
    inside = named and Path.cwd().is_relative_to(Path(named).resolve())
    return Path(named) if named and inside else None


def _inside_github(verdicts: "Verdicts", wanted: set[str]) -> None:
    """Annotations and the job summary come by themselves there, and never spoil a verdict.

    Annotations go to stderr, which the runner reads too: stdout stays what was asked for.
    """
    from edgeopt.plugins import GATE_FORMATS

    if os.environ.get("GITHUB_ACTIONS") == "true" and "github" not in wanted:
        _tell(GATE_FORMATS.load("github")(verdicts))
    place = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if place and "summary" not in wanted:
        error = _say(GATE_FORMATS.load("summary")(verdicts), place)
        if error is not None:
            _tell(f"there is no job summary: {error}")


def _say(text: str, place: str) -> "StorageError | None":
    """Print it or write it; what went wrong with a file."""
    from edgeopt.errors import StorageError

    if not place:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        print(text)
        return None
    summary = place == os.environ.get("GITHUB_STEP_SUMMARY")
    try:
        with Path(place).open("a" if summary else "w", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        return StorageError(
            f"it cannot be written: {error.strerror or error}",
            where=place,
            hint="name another file in --format FORM=FILE",
        )
    return None


def _tell(line: str) -> None:
    if line:
        print(line, file=sys.stderr, flush=True)
