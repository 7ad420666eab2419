"""edgeopt.lock: receipts of measurements, kept with the project like a lockfile.

A receipt is bound to the model's digest, the device's fingerprint and the protocol, so it says
something about this model only, on this kind of device, measured that way. It carries a seal over
its own fields: a figure that was typed in by hand does not match it.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import tomlkit

from edgeopt.core import digest as digests
from edgeopt.core.samples import Interval
from edgeopt.core.written import write_whole
from edgeopt.errors import ConfigError
from edgeopt.gate.lines import line_of, lines_of

VERSION = 1
_HEAD = (
    "Written by `edgeopt gate update`; commit it. Receipts that are changed by hand are refused."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One measured metric of one model on one device.

    Args:
        metric: Name.
        device: As the budget names it.
        kind: Fingerprint of the device's kind: what must be equal for the receipt to count.
        protocol: Rung.
        model: Digest of the file.
        value, low, high: SI, with the 95 % interval.
        base: Digest of the base model; empty without.
        base_value: SI; 0 without a base.
        change, change_low, change_high: Value over base; 0 without a base.
        recorded: Day, ISO 8601.
    """

    metric: str
    device: str
    kind: str
    protocol: str
    model: str
    value: float
    low: float
    high: float
    recorded: str
    base: str = ""
    base_value: float = 0.0
    change: float = 0.0
    change_low: float = 0.0
    change_high: float = 0.0

    @property
    def seal(self) -> str:
        """Digest over all fields."""
        text = "\n".join(f"{key}={value!r}" for key, value in sorted(asdict(self).items()))
        return digests.short(digests.of_text(text))

    @property
    def interval(self) -> Interval:
        """Of the value."""
        return Interval(value=self.value, low=self.low, high=self.high)

    @property
    def ratio(self) -> Interval | None:
        """Of value over base; None without a base."""
        if not self.base:
            return None
        return Interval(value=self.change, low=self.change_low, high=self.change_high)


def read_lock(path: Path) -> tuple[Receipt, ...]:
    """Receipts of a lock; none where there is no file.

    Raises:
        ConfigError: It is no lock, of a newer version, or a receipt was changed by hand.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document: Mapping[str, Any] = tomllib.loads(text)
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"it cannot be read: {error}", where=str(path), hint=_AGAIN) from error
    if document.get("version") != VERSION:
        raise ConfigError(
            f"it is of version {document.get('version')!r}, and this edgeopt reads {VERSION}",
            where=str(path),
            hint=_AGAIN,
        )
    lines = lines_of(text)
    rows: Any = document.get("receipt", [])
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) for row in cast("list[Any]", rows)
    ):
        raise ConfigError(
            "write [[receipt]] with two brackets",
            where=f"{path}:{line_of(lines, 'receipt')}",
            hint=_AGAIN,
        )
    return tuple(
        _receipt(row, f"{path}:{line_of(lines, 'receipt', index)}")
        for index, row in enumerate(cast("Sequence[Mapping[str, Any]]", rows))
    )


def write_lock(path: Path, receipts: Sequence[Receipt]) -> None:
    """Write receipts; those of the same metric and device are replaced, comments stay.

    Raises:
        StorageError: The file cannot be written.
    """
    document = _document(path)
    rows: Any = document.setdefault("receipt", tomlkit.aot())
    for receipt in receipts:
        row = tomlkit.table()
        for key, value in {**asdict(receipt), "seal": receipt.seal}.items():
            row.add(key, value)
        places = [i for i, old in enumerate(rows) if _same(old, receipt)]
        if places:
            rows[places[0]].update(row)
        else:
            rows.append(row)
    text = tomlkit.dumps(document)
    write_whole(
        path,
        text,
        what="the lock cannot be written",
        hint="free space there, or see its permissions",
    )


_AGAIN = "run `edgeopt gate update`, which measures and writes it"


def _receipt(row: Mapping[str, Any], where: str) -> Receipt:
    fields = {key: value for key, value in row.items() if key != "seal"}
    try:
        found = Receipt(**fields)
    except TypeError as error:
        raise ConfigError(f"it is no receipt: {error}", where=where, hint=_AGAIN) from error
    if row.get("seal") != found.seal:
        raise ConfigError("the receipt was changed by hand", where=where, hint=_AGAIN)
    return found


def _same(old: Mapping[str, Any], new: Receipt) -> bool:
    return (old.get("metric"), old.get("device")) == (new.metric, new.device)


def _document(path: Path) -> tomlkit.TOMLDocument:
    try:
        if read_lock(path):
            return tomlkit.parse(path.read_text(encoding="utf-8"))
    except ConfigError:  # changed by hand or of another version: written anew
        pass
    document = tomlkit.document()
    document.add(tomlkit.comment(_HEAD))
    document.add("version", VERSION)
    return document
