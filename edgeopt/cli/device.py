"""`edgeopt device`: boards by name: adding, checking and setting them up."""

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgeopt.cli import options
from edgeopt.cli.options import Json

if TYPE_CHECKING:
    from edgeopt.api.device_facts import Check

app = typer.Typer(
    help="Devices by name: add, list, check, set up, clean. Wherever `ssh NAME` works, NAME does.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_WIDTH = 14
Name = Annotated[str, typer.Argument(help="A device.", autocompletion=options.complete_device)]


def _key(text: str) -> Any:
    return typer.Option(help=text, show_default=False)


@app.command("add")
def add_command(
    name: Annotated[str, typer.Argument(help="Under which you will call it.")],
    host: Annotated[str, _key("What ssh is called with; NAME when left out.")] = "",
    python: Annotated[str, _key("Interpreter there, with numpy and onnxruntime.")] = "",
    exec_: Annotated[
        str, typer.Option("--exec", help="Whole command in its place: docker exec -i ort python3.")
    ] = "",
    cache_dir: Annotated[str, _key("The agent's folder there (~/.cache/edgeopt).")] = "",
    profile: Annotated[str, _key("Hardware profile; found by itself when left out.")] = "",
    provider: Annotated[str, _key("Execution provider; the profile's first otherwise.")] = "",
    power_mode: Annotated[str, _key("Power mode by name.")] = "",
    meter: Annotated[str, _key("External power meter: a command or CSV file here.")] = "",
    meter_scope: Annotated[str, _key("What it sees: board, module, package, wall.")] = "board",
    twin: Annotated[str, _key("Device that takes over when this one goes away.")] = "",
    kind: Annotated[str, _key("ssh; or local: another interpreter of this machine.")] = "ssh",
    as_json: Json = False,
) -> None:
    """Write a device into your devices file; one of the same name is replaced."""
    from edgeopt.api import devices
    from edgeopt.core.device import DeviceEntry

    values: dict[str, Any] = {
        "host": host,
        "python": python,
        "exec": exec_,
        "cache_dir": cache_dir,
        "profile": profile,
        "provider": provider,
        "power_mode": power_mode,
        "meter": meter,
        "meter_scope": meter_scope,
        "twin": twin,
        "kind": kind,
    }
    entry, path = devices.add(DeviceEntry(name=name, **values))
    if as_json:
        _print_json(device=devices.described(entry), file=str(path))
        return
    print(f"{name}: {devices.how(entry)}, in {path}")
    print(f"next: edgeopt device check {name}")


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List devices: configured ones, and hosts of your ssh configuration."""
    from edgeopt.api import devices
    from edgeopt.api.device_history import last_checks

    found, checked = devices.listing(), last_checks()
    if as_json:
        listed = [
            devices.described(entry) | {"last_check": checked.get(entry.name)}
            for entry in found.entries
        ]
        _print_json(devices=listed, ssh_hosts=list(found.ssh_hosts), file=str(found.file))
        return
    rows = [(each.name, devices.how(each), each.origin) for each in found.entries]
    rows += [(name, f"ssh {name}", "ssh configuration") for name in found.ssh_hosts]
    last = {name: f"{each['status']} {each['time']}" for name, each in checked.items()}
    titles = ("name", "reached by", "from", "last check")
    _print_table(titles, [(*row, last.get(row[0], "")) for row in rows])


@app.command("check")
def check_command(
    names: Annotated[
        list[str], typer.Argument(help="Devices.", autocompletion=options.complete_device)
    ],
    as_json: Json = False,
) -> None:
    """Check devices step by step, each line with its cure; nothing is changed on them."""
    from datetime import datetime

    from edgeopt.api.device_check import check
    from edgeopt.api.device_history import remember

    documents: list[dict[str, Any]] = []
    for name in names:
        if len(names) > 1 and not as_json:
            print(f"{name}:")
        checks = list(_shown(check(name), quiet=as_json))
        remember(name, checks, now=datetime.now().astimezone())
        listed = [{"name": c.name, "status": c.status, "text": c.text} for c in checks]
        failed = any(each.status == "FAIL" for each in checks)
        documents.append({"name": name, "ok": not failed, "checks": listed})
    if as_json:
        _print_json(devices=documents)
    if not all(each["ok"] for each in documents):
        raise typer.Exit(3)


@app.command("setup")
def setup_command(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    cpu: Annotated[
        bool, typer.Option("--cpu", help="A CPU runtime beside the GPU build that is there.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say the plan and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Put the right onnxruntime into the agent's own folder on a device."""
    from edgeopt.api import device_setup, devices
    from edgeopt.errors import UsageError

    plan = device_setup.plan(name, cpu=cpu)
    if dry_run and as_json:
        _print_json(plan=plan.text.splitlines(), requirements=list(plan.told.requirements))
        return
    print(plan.text, file=sys.stdout if dry_run else sys.stderr)
    if dry_run:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody is there to confirm this", hint="add --yes to do it")
        typer.confirm("Do it?", abort=True, err=True)
    done = device_setup.carry_out(plan, lambda line: print(line, file=sys.stderr, flush=True))
    if as_json:
        saved = str(done.saved) if done.saved else None
        device = devices.described(done.entry)
        _print_json(device=device, runtime=done.runtime, new=done.new, file=saved)
        return
    print(done.text)
    print(f"next: edgeopt device check {name}")


@app.command("calibrate")
def calibrate_command(
    name: Name,
    model: Annotated[str, typer.Option(help="A file, or a name of the zoo.")] = "digits",
    times: Annotated[int, typer.Option(help="Measurements, each with a fresh connection.")] = 20,
    protocol: Annotated[str, typer.Option(help="quick, normal or publish.")] = "normal",
    threads: options.Threads = 1,
    as_json: Json = False,
) -> None:
    """Measure a model beside itself: which differences this device cannot show."""
    import dataclasses

    from edgeopt.api.measure import settings_on
    from edgeopt.api.noise import calibrate

    found = calibrate(
        name,
        lambda line: print(line, file=sys.stderr, flush=True),
        model=model,
        times=times,
        rung=protocol,
        settings_of=lambda device: settings_on(device, threads),
    )
    if as_json:
        _print_json(device=name, **dataclasses.asdict(found))
        return
    print(f"{name}: differences below {found.text} cannot be seen")
    print(f"  {found.excluded} of {found.times} intervals exclude the true ratio 1")


@app.command("clean")
def clean_command(
    name: Name,
    everything: Annotated[bool, typer.Option("--all", help="However lately it was used.")] = False,
    days: Annotated[
        float,
        typer.Option("--days", min=0.0, max=36500.0, help="What was not used for so many days."),
    ] = 30.0,
    as_json: Json = False,
) -> None:
    """Remove old agents, models, engines and results from a device; says what that frees."""
    import dataclasses

    from edgeopt.api.device_clean import clean

    found = clean(name, days=days, everything=everything)
    if as_json:
        _print_json(device=name, **dataclasses.asdict(found))
        return
    print(f"{name}: {found.text}")


@app.command("remove")
def remove_command(name: Name, as_json: Json = False) -> None:
    """Delete a device from your devices file; nothing on the device is touched."""
    from edgeopt.api import devices

    path = devices.remove(name)
    if as_json:
        _print_json(removed=name, file=str(path))
        return
    print(f"{name} is no longer in {path}")


@app.command("profiles")
def profiles_command(
    name: Annotated[str | None, typer.Argument(help="Print this one.")] = None,
    as_json: Json = False,
) -> None:
    """List the kinds of device that are known, or print what is known about one."""
    import dataclasses

    from edgeopt.api import devices

    if name is not None and not as_json:
        print(devices.profile_text(name), end="")
        return
    found = [each for each in devices.profiles() if name in (None, each.name)]
    if name is not None and not found:
        devices.profile_text(name)  # Says what there is.
    if as_json:
        _print_json(profiles=[dataclasses.asdict(each) for each in found])
        return
    rows = [
        (p.name, p.title, p.architecture, "yes" if p.tried_on_hardware else "no") for p in found
    ]
    _print_table(("name", "title", "architecture", "tried"), rows)


def _shown(checks: "Iterator[Check]", *, quiet: bool) -> "Iterator[Check]":
    """The checks, each printed as soon as its result is known."""
    for each in checks:
        if not quiet:
            print(f"{each.status:<5} {each.name:<{_WIDTH}} {each.text}", flush=True)
        yield each


def _print_json(**values: Any) -> None:
    print(json.dumps({"schema_version": 1} | values, indent=2))


def _print_table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, no_wrap=title == "name", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
