"""What a study has cost, by strategy and by device."""

from collections.abc import Sequence
from typing import Any

from edgeopt.core.ledger import Account, Ledger
from edgeopt.core.measurement import Failure, Overhead
from edgeopt.core.trial import Trial
from edgeopt.report.words import count
from edgeopt.units import format_seconds


def ledger(trials: Sequence[Trial], devices: Sequence[str]) -> dict[str, Any]:
    """The accounts, as the document holds them."""
    accounts = Ledger.over(trials).accounts
    device_s = sum(account.device_s for account in accounts)
    failed = sum(account.failures for account in accounts)
    overhead = sum((account.overhead for account in accounts), Overhead())
    return {
        "accounts": [_account(account) for account in accounts],
        "devices": [_of_device(trials, device) for device in devices],
        "trials": len(trials),
        "failures": failed,
        "device_s": device_s,
        "overhead": _shown(overhead),
        "host_s": sum(account.host_s for account in accounts),
        "text": f"{count(len(trials), 'trial')}, {failed} failed, "
        f"{format_seconds(device_s)} on devices{_of_it(overhead)}",
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "strategy": account.strategy,
        "trials": account.trials,
        "failures": account.failures,
        "device_s": account.device_s,
        "overhead": _shown(account.overhead),
        "host_s": account.host_s,
        "text": f"{count(account.trials, 'trial')}, {account.failures} failed, "
        f"{format_seconds(account.device_s)} on devices{_of_it(account.overhead)}, "
        f"{format_seconds(account.host_s)} here",
    }


def _of_device(trials: Sequence[Trial], device: str) -> dict[str, Any]:
    mine = [trial for trial in trials if trial.device == device]
    device_s = sum(trial.device_s for trial in mine)
    failed = sum(isinstance(trial.outcome, Failure) for trial in mine)
    overhead = sum((trial.overhead for trial in mine), Overhead())
    return {
        "device": device,
        "trials": len(mine),
        "failures": failed,
        "device_s": device_s,
        "overhead": _shown(overhead),
        "text": f"{count(len(mine), 'trial')}, {failed} failed, "
        f"{format_seconds(device_s)}{_of_it(overhead)}",
    }


def _shown(found: Overhead) -> dict[str, Any]:
    return {"builds": found.builds, "build_s": found.build_s, "upload_s": found.upload_s}


def _of_it(found: Overhead) -> str:
    """What of the seconds was no measuring, where it is worth a word."""
    parts: list[str] = []
    if found.builds:
        parts.append(f"{count(found.builds, 'engine build')} {format_seconds(found.build_s)}")
    if found.upload_s >= 1:
        parts.append(f"uploads {format_seconds(found.upload_s)}")
    return f" (of it {', '.join(parts)})" if parts else ""
