"""`edgeopt plugins`: what is installed on each shelf."""

import json

from edgeopt.cli.options import Json


def command(as_json: Json = False) -> None:
    """List the plug-ins of every shelf."""
    from edgeopt.plugins import SHELVES

    found = {name: list(shelf.names()) for name, shelf in SHELVES.items()}
    if as_json:
        print(json.dumps({"schema_version": 1, "plugins": found}, indent=2))
        return
    for name, names in found.items():
        print(f"{name:<10} {', '.join(names) if names else '-'}")
