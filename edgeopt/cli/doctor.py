"""`edgeopt doctor`: is this machine ready, line by line, with the cure."""

import json

import typer

from edgeopt.cli import options


def command(store: options.Store = None, as_json: options.Json = False) -> None:
    """Check this machine: runtime, agent, store, noise, optional parts."""
    from edgeopt.api.doctor import examine

    checks = examine(store)
    if as_json:
        listed = [{"name": c.name, "status": c.status, "text": c.text} for c in checks]
        print(json.dumps({"schema_version": 1, "checks": listed}, indent=2))
    else:
        for check in checks:
            print(f"{check.status:<5} {check.name:<16} {check.text}")
    if any(check.status == "FAIL" for check in checks):
        raise typer.Exit(3)
