"""`edgeopt gate explain` and `waive`: what a budget means, and accepting one for a while."""

import datetime
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT

from edgeopt.errors import ConfigError, UsageError
from edgeopt.gate.budget import Budget, Gate
from edgeopt.gate.config import quantity, read_gate
from edgeopt.gate.lock import read_lock
from edgeopt.gate.toml import edit_toml
from edgeopt.gate.verdict import said

_KINDS = {
    "exact": "computed from the file alone, every time; no device is needed",
    "measured": "measured now on the device, interleaved with the base; with --no-measure the "
    "lock's receipt for this very model and protocol; without either no verdict, never a pass",
    "scored": "computed on the held-out samples of the project's data",
}


def explained(config: Path, budget_id: str) -> str:
    """Everything that bears on a budget, in words.

    Raises:
        ConfigError, UsageError: The file is wrong, or has no such budget.
    """
    gate = read_gate(config)
    budget = _budget(gate, budget_id)
    lines = [
        f"{budget.id} ({config}:{budget.line}): {budget.metric.title}"
        + (f" on {budget.device}" if budget.device else ""),
        f"  allowed    {_allowed(budget)}",
        f"  level      {budget.level}",
        f"  evidence   {_KINDS[budget.metric.kind]}",
    ]
    if budget.tolerance:
        lines.append(f"  tolerance  {budget.tolerance:.1%} on top before it is missed")
    for receipt in read_lock(gate.lock):
        if (receipt.metric, receipt.device) == (budget.metric.name, budget.device):
            found = said(receipt.value, budget.metric.unit)
            lines.append(f"  receipt    {found}, {receipt.recorded}, {receipt.kind}")
    waiver = gate.waiver_of(budget)
    if waiver is not None:
        lines.append(f"  waiver     until {waiver.until}: {waiver.reason}")
    if budget.hint:
        lines.append(f"  hint       {budget.hint}")
    return "\n".join(lines)


def waived(
    config: Path, budget_id: str, *, until: str, reason: str, ceiling: str, today: datetime.date
) -> str:
    """Write a waiver into the file.

    Raises:
        ConfigError, UsageError: The file is wrong, or something cannot be meant.
        StorageError: The file cannot be written.
    """
    gate = read_gate(config)
    budget = _budget(gate, budget_id)
    try:
        day = datetime.date.fromisoformat(until)
    except ValueError as error:
        raise UsageError(f"--until {until!r} is no day", hint="write 2027-03-01") from error
    if not reason.strip():
        raise UsageError("a waiver needs a reason", hint="give --reason")
    if ceiling:
        quantity(ceiling, budget.metric.unit)
    if day < today:
        raise UsageError(f"--until {until} is over already", hint="give a day that comes")
    row = tomlkit.table()
    row.trivia.indent = "\n"
    row.add("budget", budget.id)
    if ceiling:
        row.add("ceiling", ceiling)
    row.add("until", day)
    row.add("reason", reason.strip())

    def change(document: Any) -> None:
        held: Any = document["gate"].setdefault("waiver", tomlkit.aot())
        if not _is_array_of_tables(held):
            raise ConfigError(
                "waivers stand inline in this file",
                where=gate.place("waiver"),
                hint="write [[gate.waiver]]",
            )
        held.append(row)

    edit_toml(config, change)
    return f"{config}: {budget.id} is waived until {day}"


def _is_array_of_tables(item: object) -> bool:
    return isinstance(item, AoT)


def _budget(gate: Gate, budget_id: str) -> Budget:
    for budget in gate.budgets:
        if budget.id == budget_id:
            return budget
    known = ", ".join(budget.id for budget in gate.budgets) or "none"
    raise ConfigError(
        f"there is no budget {budget_id!r}", where=str(gate.path), hint=f"known: {known}"
    )


def _allowed(budget: Budget) -> str:
    unit, parts = budget.metric.unit, list[str]()
    if budget.limit is not None:
        bound = "at least" if budget.metric.higher else "at most"
        parts.append(f"{bound} {said(budget.limit, unit)}")
    if budget.change is not None:
        points = f"{budget.change * 100:g} points below"
        parts.append(
            f"{points if budget.metric.higher else f'{budget.change:.1%} above'} the base model"
        )
    return ", and ".join(parts)
