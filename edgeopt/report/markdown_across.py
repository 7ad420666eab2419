"""The section on several devices as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from edgeopt.report.markdown_text import plain, row


def across_section(across: Mapping[str, Any]) -> list[str]:
    """One model for all, regret, and ranks.

    Args:
        across: That part of the document; not null.
    """
    devices: Sequence[str] = across["devices"]
    named = [f"{d} (emulated)" if d in across["emulated"] else d for d in devices]
    lines = ["## Across devices", "", *(f"- {plain(text)}" for text in across["text"]), ""]
    lines += ["### Latency of one device's pick on another", ""]
    head = ["pick of", *(f"on {name}" for name in named)]
    lines += [row(head), row("---" for _ in head)]
    cells = {(each["pick_of"], each["used_on"]): each["text"] for each in across["regret"]}
    lines += [row([a, *(cells[a, b] for b in devices)]) for a in devices]
    if across["robust"]["minimax"] is not None:
        lines += ["", "### One model for all", "", *_robust(across["robust"], devices, named)]
    if across["ranks"]:
        lines += ["", "### Ranks by latency", "", *_ranks(across["ranks"], devices, named)]
    return [*lines, *_numerics(across["numerics"])]


def _robust(robust: Mapping[str, Any], devices: Sequence[str], named: Sequence[str]) -> list[str]:
    head = ["smallest", "model", *(f"on {name}" for name in named)]
    lines = [row(head), row("---" for _ in head)]
    for name, title in (("minimax", "worst price"), ("mean", "mean price")):
        found = robust[name]
        what = found["label"] or found["summary"]
        prices = [f"{found['price'][d]['text']} ({found['ids'][d]})" for d in devices]
        lines.append(row([title, what, *prices]))
    left = f"{robust['considered']} can serve all devices, {robust['excluded']} cannot"
    return [*lines, "", f"Of the measured models {left}."]


def _ranks(
    ranks: Sequence[Mapping[str, Any]], devices: Sequence[str], named: Sequence[str]
) -> list[str]:
    head = ["model", *named]
    lines = [row(head), row("---" for _ in head)]
    for each in ranks:
        cells = [
            f"{each['ranks'][d]} ({each['ids'][d]}, {each['ratios'][d]}"
            f"{', breaks a bound' if d in each['broken'] else ''})"
            for d in devices
        ]
        lines.append(row([each["label"] or each["summary"], *cells]))
    return lines


def _numerics(found: Sequence[Mapping[str, str]]) -> list[str]:
    if not found:
        return []
    lines = [f"- {plain(n['device'])}, {n['id']}: {plain(n['text'])}" for n in found]
    return ["", "### Outputs on a device against the host's", "", *lines]
