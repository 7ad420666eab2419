"""`edgeopt gate`: check, update, explain, waive."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Render = Callable[[Any], str]

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
) -> None:
    """Judge every budget. 0 kept, 1 missed, 3 device trouble, 4 undecided, 5 no budgets."""
    from edgeopt.api.gate import check as run
    from edgeopt.plugins import GATE_FORMATS

    wanted = [form.partition("=") for form in forms or ["text"]]
    renders = [(GATE_FORMATS.load(name), place) for name, _, place in wanted]
    verdicts = run(_request(config, model, base, time, measure, inconclusive), _tell)
    for render, place in [*renders, *_inside_github(wanted)]:
        _say(render(verdicts), place)
    raise typer.Exit(verdicts.code)


@app.command()
def update(
    config: Config = Path("edgeopt.toml"),
    model: ModelFile = None,
    base: Base = "",
    time: Time = "5m",
) -> None:
    """Measure every budget on its device and write the receipts into the lock."""
    from edgeopt.api.gate import update as run

    lock, count = run(_request(config, model, base, time), _tell)
    print(f"{lock}: {count} receipts written; commit it")


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
    from edgeopt.api.gate_words import waived

    print(waived(config, budget, until=until, reason=reason, ceiling=ceiling))


def _request(
    config: Path,
    model: Path | None,
    base: str,
    time: str,
    measure: bool = True,
    undecided: str = "fail",
):
    import datetime

    from edgeopt.api.gate import GateRequest
    from edgeopt.units import parse_duration_s

    return GateRequest(
        config=config,
        model=model,
        base=base,
        measure=measure,
        time_s=parse_duration_s(time),
        undecided=undecided,
        today=datetime.date.today(),
    )


def _inside_github(wanted: list[tuple[str, str, str]]) -> list[tuple[Render, str]]:
    """Annotations and the job summary come by themselves there."""
    from edgeopt.plugins import GATE_FORMATS

    names = {name for name, _, _ in wanted}
    found: list[tuple[Render, str]] = []
    if os.environ.get("GITHUB_ACTIONS") == "true" and "github" not in names:
        found.append((GATE_FORMATS.load("github"), ""))
    place = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if place and "summary" not in names:
        found.append((GATE_FORMATS.load("summary"), place))
    return found


def _say(text: str, place: str) -> None:
    if not place:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        print(text)
        return
    from edgeopt.errors import StorageError

    mode = "a" if place == os.environ.get("GITHUB_STEP_SUMMARY") else "w"
    try:
        with Path(place).open(mode, encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StorageError(f"it cannot be written: {error}", where=place) from error


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
