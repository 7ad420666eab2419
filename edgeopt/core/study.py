"""`Study`: what a search was asked to do. Equal questions have equal ids, so a run can go on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeopt.core import digest as digests
from edgeopt.core.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Study:
    """The question behind a set of trials.

    What may change between two runs of one study (the budget, the number of trials) is not in
    it: the same command with a larger budget goes on.

    Args:
        model_name: As the user gave it.
        baseline: Digest of the model file.
        data: Digest of the data set; empty without data.
        metric: Accuracy metric; `agreement` without labels.
        objectives: In the order of importance; the first is shown on the x axis.
        devices: Names under which trials are stored.
        strategy: Which search.
        seed: Of the search.
        options: Everything else that changes what is tried or how it is measured.
        origin: Where model and data were found (`model`, `data`), to open them again. Not part
            of the question: a moved file is the same study.
    """

    model_name: str
    baseline: str
    data: str
    metric: str
    objectives: tuple[Objective, ...]
    devices: tuple[str, ...]
    strategy: str
    seed: int = 0
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    origin: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def id(self) -> str:
        """Readable and unique for the question: `ppocr-cls-1f9a22c07b3d`."""
        objectives = [f"{o.metric}.{o.statistic}" for o in self.objectives]
        question = [
            self.baseline,
            self.data,
            self.metric,
            objectives,
            self.devices,
            self.strategy,
            self.seed,
            sorted(self.options.items()),
        ]
        stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in self.model_name)[-40:]
        return f"{stem}-{digests.short(digests.of_text(json.dumps(question)))}"
