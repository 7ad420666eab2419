"""What a device is asked for a gate, and what it answers. Imports nothing that a device needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeopt.core.data import DataSet
from edgeopt.core.model import Model
from edgeopt.gate.budget import Budget
from edgeopt.gate.evidence import Absent, Evidence

Evidences = Mapping[str, Evidence | Absent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is measured on one device.

    Args:
        config: edgeopt.toml; its folder is the project.
        device: Name.
        model: Under the gate.
        base: None measures the model beside itself.
        budgets: On this device.
        data: Whose first samples are the inputs; None takes random ones.
        protocol: Rung of a single measurement.
        folder: For the agent's bundle and the inputs.
        time_s: No measurement is begun after so many seconds.
    """

    config: Path
    device: str
    model: Model
    base: Model | None
    budgets: Sequence[Budget]
    data: DataSet | None
    protocol: str
    folder: Path
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a device said.

    Args:
        kind: Of the device: profile and fingerprint; empty where it does not answer.
        evidence: By budget id.
    """

    kind: str
    evidence: Evidences
