"""What one run of `edgeopt gate` is about: the request, and everything it names, opened."""

import datetime
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgeopt.api.gate_base import Base, open_base
from edgeopt.core.data import DataSet
from edgeopt.core.model import Model
from edgeopt.errors import UsageError
from edgeopt.gate.budget import Gate
from edgeopt.gate.config import read_gate
from edgeopt.gate.lock import Receipt, read_lock
from edgeopt.graph.read import read_model
from edgeopt.measure.plan import protocol as protocol_named
from edgeopt.plugins import ACCURACY

Progress = Callable[[str], None]
UNDECIDED_RULES = ("fail", "pass", "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What `edgeopt gate check` and `update` are asked.

    Args:
        config: edgeopt.toml.
        model: Instead of the one in the file; None is that one.
        base: A file or `git:REF`; empty compares with nothing.
        measure: Whether devices are used; without, receipts and files must do.
        static: Whether only budgets are judged that the file alone decides.
        time_s: For the measurements of each device.
        undecided: What an undecided budget does: `fail` exits 4, `pass` and `report` do not.
        today: Waivers end after their last day.
        root: Folder that the places of findings are relative to, which servers of a repository
            take for its root; None is the working folder.
    """

    config: Path = Path("edgeopt.toml")
    model: Path | None = None
    base: str = ""
    measure: bool = True
    static: bool = False
    time_s: float = 300.0
    undecided: str = "fail"
    today: datetime.date
    root: Path | None = None

    def checked(self) -> "GateRequest":
        """The same request, after its words were found to be known.

        Raises:
            UsageError: Which one is not.
        """
        if self.undecided not in UNDECIDED_RULES:
            raise UsageError(
                f"--inconclusive {self.undecided!r} is not known",
                hint=f"known: {', '.join(UNDECIDED_RULES)}",
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A gate with everything opened.

    Args:
        request: What was asked.
        gate: The file's settings.
        model: Under the gate.
        base: What it is compared with; None without.
        data: None without, or where nothing needs it.
        receipts: Of the lock.
        left_out: How many budgets are not looked at.
    """

    request: GateRequest
    gate: Gate
    model: Model
    base: Base | None
    data: DataSet | None
    receipts: tuple[Receipt, ...]
    left_out: int = 0

    @property
    def same(self) -> bool:
        """Whether the model is the base's very file."""
        return self.base is not None and self.base.model.digest == self.model.digest


def open_case(
    request: GateRequest, folder: Path, progress: Progress, *, receipts: bool = True
) -> Case:
    """Everything that the request and the file name.

    Args:
        request: What is asked.
        folder: For what is brought out of the repository.
        progress: Told what takes long.
        receipts: Whether the lock is read.

    Raises:
        ConfigError: Something in edgeopt.toml or in the lock is wrong, with file and line.
        ModelError, DataError, UsageError: What they name cannot be used.
    """
    gate = read_gate(request.config)
    with said_at(gate.place("protocol")):
        protocol_named(gate.protocol)
    asked = gate
    if request.static:
        exact = tuple(budget for budget in gate.budgets if budget.metric.kind == "exact")
        asked = replace(gate, budgets=exact)
    path = gate.model if request.model is None else request.model
    with said_at(gate.place("model") if request.model is None else ""):
        model = read_model(path)
    needs_data = any(budget.metric.kind == "scored" for budget in asked.budgets)
    if gate.metric:
        with said_at(gate.place("metric")):
            ACCURACY.load(gate.metric)
    data = None
    if gate.data and (needs_data or (request.measure and not request.static)):
        from edgeopt.api.subject import open_subject  # readers of data cost what exact budgets save

        with said_at(gate.place("data")):
            data = open_subject(
                path, data=gate.data, metric=gate.metric or None, seed=0, progress=progress
            ).data
    return Case(
        request=request,
        gate=asked,
        model=model,
        base=open_base(request.base, path, folder) if request.base else None,
        data=data,
        receipts=read_lock(gate.lock) if receipts else (),
        left_out=len(gate.budgets) - len(asked.budgets),
    )


@contextmanager
def said_at(place: str) -> Generator[None]:
    """What is wrong with something that the file names is said with the file's line too."""
    try:
        yield
    except UsageError as error:
        where = f"{error.where} ({place})" if error.where and place else error.where or place
        raise type(error)(error.what, where=where, hint=error.hint) from error
