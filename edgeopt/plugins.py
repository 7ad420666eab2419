"""Shelves of plug-ins: one file each, its name is the plug-in's name everywhere.

A shelf lists its names without importing them, so that `--help` and completion cost nothing, and
loads one by name on use. A plug-in file defines `PLUGIN`. Third parties add through entry points
whose group is the shelf's package, for example `edgeopt.transforms.rewrite`.
"""

import difflib
import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from edgeopt.errors import UsageError


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder of plug-ins.

    Args:
        package: Dotted name of the folder; also the entry-point group.
        kind: What one plug-in on it is called in messages, in the singular.
        beside: Modules in the folder that are no plug-ins.
    """

    package: str
    kind: str
    beside: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        """All names on the shelf, sorted, without importing any of them."""
        return tuple(sorted({*self._own(), *_foreign(self.package)}))

    def _own(self) -> frozenset[str]:
        return _own(self.package).difference(self.beside)

    def load(self, name: str) -> Any:
        """The plug-in of that name.

        Raises:
            UsageError: No such name on the shelf; the message offers the nearest one.
        """
        if name in self._own():
            return importlib.import_module(f"{self.package}.{name}").PLUGIN
        foreign = _foreign(self.package)
        if name in foreign:
            return foreign[name].load()
        near = difflib.get_close_matches(name, self.names(), n=1)
        raise UsageError(
            f"there is no {self.kind} called {name!r}",
            hint=(f"did you mean {near[0]!r}? " if near else "")
            + f"available: {', '.join(self.names())}",
        )


@cache
def _own(package: str) -> frozenset[str]:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return frozenset()
    found = pkgutil.iter_modules(spec.submodule_search_locations)
    return frozenset(module.name for module in found if not module.name.startswith("_"))


@cache
def _foreign(package: str) -> dict[str, Any]:
    return {entry.name: entry for entry in entry_points(group=package)}


REWRITE = Shelf("edgeopt.transforms.rewrite", "rewrite rule")
FUSE = Shelf("edgeopt.transforms.fuse", "fused pattern")
QUANTIZE = Shelf("edgeopt.transforms.quantize", "quantization scheme")
PRUNE = Shelf("edgeopt.transforms.prune", "pruning criterion")
REPAIR = Shelf("edgeopt.transforms.repair", "repair")
TRANSFORMS = (REWRITE, FUSE, PRUNE, QUANTIZE, REPAIR)
READERS = Shelf("edgeopt.data.readers", "data reader")
ACCURACY = Shelf("edgeopt.data.accuracy", "accuracy metric")
STRATEGIES = Shelf("edgeopt.search.strategies", "search strategy")
GATE_FORMATS = Shelf("edgeopt.gate.formats", "form of the gate's output")
TARGETS = Shelf(
    "edgeopt.targets",
    "target",
    beside=(
        "bundle",
        "profiles",
        "profile_match",
        "profile_schema",
        "devices",
        "device_tables",
        "device_store",
        "ssh_hosts",
        "runtimes",
    ),
)
SHELVES = {
    "rewrite": REWRITE,
    "fuse": FUSE,
    "quantize": QUANTIZE,
    "prune": PRUNE,
    "repair": REPAIR,
    "reader": READERS,
    "accuracy": ACCURACY,
    "strategy": STRATEGIES,
    "target": TARGETS,
}
