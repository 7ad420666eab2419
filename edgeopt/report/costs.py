"""What a study has cost, by strategy and by device."""

from collections.abc import Sequence
from typing import Any

from edgeopt.core.ledger import Account, Ledger
from edgeopt.core.measurement import Failure
from edgeopt.core.trial import Trial
from edgeopt.report.words import count
from edgeopt.units import format_seconds


def ledger(trials: Sequence[Trial], devices: Sequence[str]) -> dict[str, Any]:
    """The accounts, as the document holds them."""
    accounts = Ledger.over(trials).accounts
    device_s = sum(account.device_s for account in accounts)
    failed = sum(account.failures for account in accounts)
    return {
        "accounts": [_account(account) for account in accounts],
        "devices": [_of_device(trials, device) for device in devices],
        "trials": len(trials),
        "failures": failed,
        "device_s": device_s,
        "host_s": sum(account.host_s for account in accounts),
        "text": f"{count(len(trials), 'trial')}, {failed} failed, "
        f"{format_seconds(device_s)} on devices",
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        "strategy": account.strategy,
        "trials": account.trials,
        "failures": account.failures,
        "device_s": account.device_s,
        "host_s": account.host_s,
        "text": f"{count(account.trials, 'trial')}, {account.failures} failed, "
        f"{format_seconds(account.device_s)} on devices, {format_seconds(account.host_s)} here",
    }


def _of_device(trials: Sequence[Trial], device: str) -> dict[str, Any]:
    mine = [trial for trial in trials if trial.device == device]
    device_s = sum(trial.device_s for trial in mine)
    failed = sum(isinstance(trial.outcome, Failure) for trial in mine)
    return {
        "device": device,
        "trials": len(mine),
        "failures": failed,
        "device_s": device_s,
        "text": f"{count(len(mine), 'trial')}, {failed} failed, {format_seconds(device_s)}",
    }
