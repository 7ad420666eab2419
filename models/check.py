"""Measure every model of the zoo, unmodified, on its own data: `python models/check.py [NAME ...]`.

Prints the table of README.md: samples, and the accuracy on the search and the test part. Needs
edgeopt with the extra `zoo`; models that are not in the cache are fetched.
"""

import sys
import time

from edgeopt.api import zoo
from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import DataSet, Part
from edgeopt.data.accuracy_metric import load_metric
from edgeopt.data.evaluate import score_part
from edgeopt.data.intervals import smallest_decidable_drop
from edgeopt.data.read import read_data
from edgeopt.graph.read import read_model
from edgeopt.graph.runtime import Session


def row(name: str) -> str:
    """One line of the table."""
    started = time.monotonic()
    files = zoo.get(name, None, lambda text: print(text, file=sys.stderr))
    data: DataSet = read_data(str(files.data), read_model(files.model))
    metric = load_metric(data.metric, data.metric_options)
    session = Session(files.model, RuntimeSettings())

    def scored(part: Part) -> tuple[float, float]:
        beside = session.run if metric.needs_reference else None
        found = score_part(part, session.run, metric, state=data.state, reference=beside)
        return found.value, smallest_decidable_drop(metric, found)

    search, decidable = scored(data.search)
    test, _ = scored(data.test)
    count = sum(len(part) for part in (data.calibration, data.search, data.test))
    label = files.entry.metric.rsplit(":", 1)[-1]
    size = files.data.stat().st_size / 1e6
    print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return (
        f"| `{name}` | {label} | {count} | {search * 100:.1f} % | {test * 100:.1f} % "
        f"| {decidable * 100:.1f} | {size:.1f} MB |"
    )


def main() -> None:
    """The table of the models named, or of all."""
    names = sys.argv[1:] or [entry.name for entry in zoo.list_models()]
    print("| model | metric | samples | search part | test part | decidable drop, points | data |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        print(row(name), flush=True)


if __name__ == "__main__":
    main()
