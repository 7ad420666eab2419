"""edgeopt.lock: receipts of measurements, kept with the project like a lockfile.

A receipt is bound to the model's digest, the device's fingerprint and the protocol, so it says
something about this model only, on this kind of device, measured that way. It carries a seal over
its own fields: a figure that was typed in by hand does not match it.
"""

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
from edgeopt.gate.toml import edit_toml, read_toml

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
        text, document = read_toml(path, hint=_AGAIN)
    except FileNotFoundError:
        return ()
    if "version" not in document:
        raise ConfigError(
            "this is no lock of edgeopt: it names no version", where=f"{path}:1", hint=_AGAIN
        )
    if document["version"] != VERSION:
        raise ConfigError(
            f"it is of version {document['version']!r}, and this edgeopt reads {VERSION}",
            where=f"{path}:{line_of(lines_of(text), 'version')}",
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
    """Write receipts: these are all that the lock holds then; its comments stay.

    Raises:
        StorageError: The file cannot be written.
    """
    if _usable(path):
        edit_toml(path, lambda document: _put(document, receipts))
        return
    document = tomlkit.document()
    document.add(tomlkit.comment(_HEAD))
    document.add("version", VERSION)
    _put(document, receipts)
    write_whole(
        path,
        tomlkit.dumps(document),
        what="the lock cannot be written",
        hint="free space there, or see its permissions",
    )


def _put(document: Any, receipts: Sequence[Receipt]) -> None:
    rows: Any = document.setdefault("receipt", tomlkit.aot())
    for index in reversed(range(len(rows))):  # a row's comments go with a row that nobody needs
        earlier = rows[:index]
        if not any(_same(rows[index], receipt) for receipt in receipts) or any(
            _key(rows[index]) == _key(row) for row in earlier
        ):
            del rows[index]
    for receipt in receipts:
        row = tomlkit.table()
        for key, value in {**asdict(receipt), "seal": receipt.seal}.items():
            row.add(key, value)
        old = next((old for old in rows if _same(old, receipt)), None)
        if old is None:
            rows.append(row)
            continue
        for key in [key for key in old if key not in row]:
            del old[key]
        old.update(row)


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


def _key(row: Mapping[str, Any]) -> tuple[object, object]:
    return row.get("metric"), row.get("device")


def _same(old: Mapping[str, Any], new: Receipt) -> bool:
    return _key(old) == (new.metric, new.device)


def _usable(path: Path) -> bool:
    """Whether its comments can be kept; what is damaged or of another version is written anew."""
    try:
        _, document = read_toml(path)
    except (FileNotFoundError, ConfigError):
        return False
    return document.get("version") == VERSION and _tables(document.get("receipt", [{}]))


def _tables(rows: Any) -> bool:
    """Whether it is what `[[receipt]]` makes: an empty list stands inline."""
    if not isinstance(rows, list) or not rows:
        return False
    return all(isinstance(row, dict) for row in cast("list[Any]", rows))
