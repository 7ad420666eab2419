"""`measure`: one candidate on one device, from files to values with a verdict."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure, Value, Verdict
from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError, EdgeOptError, ModelError
from edgeopt.measure.metrics import evaluate
from edgeopt.measure.plan import Protocol
from edgeopt.measure.raw import RawRun, Side
from edgeopt.measure.verdicts import disturbed, judge

_OF_THE_CANDIDATE = frozenset({"load_failed", "run_failed", "crash", "oom", "timeout"})
_WORDS = {
    "load_failed": "the runtime does not load it",
    "run_failed": "the runtime does not run it",
    "crash": "the runtime crashed",
    "oom": "it does not fit into memory",
    "timeout": "it took too long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one measurement found.

    Args:
        values: By metric: `latency`, `size`, `peak_memory`, `load`, `first_run`.
        absent: Metric to the reason why it has no value.
        verdict: Whether it holds.
        environment: Facts of the device during it.
        profile: The agent's `profile` reply: `nodes` in the order of execution; None where it
            could not be profiled.
        device_s: Seconds that the device was busy with it.
    """

    values: Mapping[str, Value]
    absent: Mapping[str, str]
    verdict: Verdict
    environment: Mapping[str, str]
    profile: Mapping[str, Any] | None
    device_s: float


@dataclass(slots=True)
class _Device:
    """The target with a clock, and refusals turned into what they are."""

    target: Target
    quiet: AbstractContextManager[Any]
    deadline_s: float
    spent_s: float = field(default=0.0)

    def ask(self, verb: str, **arguments: Any) -> Mapping[str, Any]:
        """One job while the host is quiet.

        Raises:
            _CandidateError: The candidate cannot be used.
            ModelError: The baseline cannot be used.
            DeviceError: The device cannot do what was asked.
        """
        with self.quiet:
            start = time.monotonic()
            try:
                reply = self.target.request(verb, deadline_s=self.deadline_s, **arguments)
            finally:
                self.spent_s += time.monotonic() - start
        if reply["ok"]:
            return reply
        raise _refusal(reply["error"], self.target.name, verb)


class _CandidateError(Exception):
    """Carries the failure of a candidate out of the sequence of jobs."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def _refusal(error: Mapping[str, str], device: str, verb: str) -> Exception:
    code, phase = error["code"], error.get("phase", "")
    if code == "bad_request":
        return EdgeOptError(f"the agent refused {verb}: {error['text']}", where=device)
    blameless = phase in {"start", "import"} and code not in {"oom"}
    if code not in _OF_THE_CANDIDATE or blameless:
        return DeviceError(error["text"], where=device, hint=error["hint"])
    reason = f"{_WORDS[code]} ({phase or verb}): {error['text']}"
    if phase.endswith("baseline"):
        return ModelError(
            f"the baseline cannot be measured: {reason}",
            where=device,
            hint=error["hint"] or "check that the given model runs on this device",
        )
    return _CandidateError(Failure(stage=_stage(phase), reason=reason))


def _stage(phase: str) -> str:
    return "run" if phase.startswith("run") else "load"


def settings_of(settings: RuntimeSettings) -> dict[str, Any]:
    """Runtime settings as the agent takes them."""
    return {
        "provider": settings.provider,
        "threads": settings.threads,
        "spinning": settings.spinning,
        "optimization": settings.optimization,
        "options": dict(settings.options),
    }


def measure(
    target: Target,
    *,
    baseline: Path,
    candidate: Path,
    feeds: Path,
    settings: RuntimeSettings,
    baseline_settings: RuntimeSettings,
    protocol: Protocol,
    identical: bool = False,
    baseline_latency_s: float | None = None,
    quiet: AbstractContextManager[Any] | None = None,
) -> Outcome | Failure:
    """Measure a candidate beside the baseline.

    The footprint comes first: it finds out cheaply what cannot be loaded or run. Then come the
    rounds of alternating blocks, each in a fresh process that opens the two models in another
    order, and last the profile.

    Args:
        target: An open device.
        baseline: The user's file.
        candidate: The built file; the baseline's own for the baseline (A against A).
        feeds: From `measure.feeds.write_feeds`, five or more different samples.
        settings: Of the candidate's session.
        baseline_settings: Of the baseline's session.
        protocol: Which rung.
        identical: The candidate is the baseline file under the baseline's settings.
        baseline_latency_s: Pooled median of the baseline over the study; None takes this run's.
        quiet: A lock held while the device works; work that competes with it on this host
            takes it too.

    Raises:
        DeviceError: The device or its agent fails, or lacks the provider.
        ModelError: The baseline cannot be run.
    """
    guard = nullcontext() if quiet is None else quiet
    device = _Device(target=target, quiet=guard, deadline_s=protocol.deadline_s)
    both: dict[Side, RuntimeSettings] = {"candidate": settings, "baseline": baseline_settings}
    file, given, samples = target.put(candidate), target.put(baseline), target.put(feeds)
    alone = {"model": file, "feeds": samples, "settings": settings_of(settings)}
    try:
        footprint = device.ask("footprint", **alone)
        rounds, repeated = _rounds(device, file, given, samples, both, protocol)
    except _CandidateError as error:
        return error.failure
    try:
        profile = device.ask("profile", **alone, runs=protocol.profile_runs)
    except _CandidateError:
        # It was loaded and run; that it cannot be profiled costs the layers, not the numbers.
        profile = None
    raw = RawRun(footprint=footprint, rounds=rounds, profile=profile)
    values, absent = evaluate(raw, baseline_s=baseline_latency_s, identical=identical)
    verdict = judge(raw, protocol=protocol, settings=both, identical=identical)
    facts = environment(rounds, protocol)
    return Outcome(
        values=values,
        absent=absent,
        verdict=verdict,
        environment={**facts, "repeated": str(repeated)} if repeated else facts,
        profile=profile,
        device_s=device.spent_s,
    )


def _rounds(
    device: _Device,
    candidate: str,
    baseline: str,
    feeds: str,
    settings: Mapping[Side, RuntimeSettings],
    protocol: Protocol,
) -> tuple[list[Mapping[str, Any]], int]:
    """The rounds of a protocol, and how many more were run in place of disturbed ones."""
    rounds: list[Mapping[str, Any]] = []
    left = protocol.repeats
    while len(rounds) < protocol.rounds:
        found = device.ask(
            "bench",
            candidate=candidate,
            baseline=baseline,
            feeds=feeds,
            settings=settings_of(settings["candidate"]),
            baseline_settings=settings_of(settings["baseline"]),
            first="candidate" if len(rounds) % 2 == 0 else "baseline",
            warmup=protocol.warmup,
            pairs=protocol.pairs,
            min_seconds=protocol.min_seconds,
            min_runs=protocol.min_runs,
        )
        if left and disturbed(found, settings):
            left -= 1
        else:
            rounds.append(found)
    return rounds, protocol.repeats - left


def environment(rounds: Sequence[Mapping[str, Any]], protocol: Protocol) -> dict[str, str]:
    """What a reader of the numbers must know about the device at that time."""
    blocks = [block for each in rounds for block in each["candidate"]["blocks"]]
    heat = [block["temperature_c"] for block in blocks if block["temperature_c"] is not None]
    load = [block["load"] for block in blocks if block["load"] is not None]
    first = rounds[0]
    found = {
        "protocol": protocol.name,
        "onnxruntime": str(first["runtime"]),
        "python": str(first["python"]),
        "providers": ", ".join(first["candidate"]["providers"]),
        "processors": f"{first['processors']:g}",
        "feeds": str(first["feeds"]),
    }
    if first["governor"]:
        found["governor"] = str(first["governor"])
    if load:
        found["load"] = f"{max(load):.2f}"
    if heat:
        found["temperature_c"] = f"{max(heat):.0f}"
    return found
