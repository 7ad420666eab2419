"""One job on a device: asked while the host is quiet, timed, and its refusal told as what it is."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure, Overhead
from edgeopt.core.protocols import Target
from edgeopt.errors import DeviceError, EdgeOptError, ModelError

_OF_THE_CANDIDATE = frozenset(
    {"load_failed", "run_failed", "bad_option", "crash", "oom", "timeout"}
)
_SUDDEN = frozenset({"crash", "oom"})
"""Ends that something else on the device may have brought about."""
COMPILING = frozenset({"TensorrtExecutionProvider", "OpenVINOExecutionProvider"})
"""Providers that build an engine when a session is opened: minutes, the first time."""
BUILD_S = 3600.0
_WORDS = {
    "load_failed": "the runtime does not load it",
    "run_failed": "the runtime does not run it",
    "bad_option": "the provider does not have an option of its settings",
    "crash": "the runtime crashed",
    "oom": "it does not fit into memory",
    "timeout": "it took too long",
}


class CandidateError(Exception):
    """Carries the failure of a candidate out of a sequence of jobs."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


@dataclass(slots=True)
class Device:
    """A target with a clock, and refusals turned into what they are.

    Args:
        target: An open device.
        quiet: Held while the device works.
        deadline_s: Of a job that says none.
        spent_s: Seconds that the device was busy so far, uploads included.
        overhead: What of them was no measuring.
    """

    target: Target
    quiet: AbstractContextManager[Any]
    deadline_s: float
    spent_s: float = field(default=0.0)
    overhead: Overhead = field(default=Overhead())

    def put(self, path: Path) -> str:
        """Bring a file to the device; its place there.

        Raises:
            DeviceError: It does not get there.
        """
        start = time.monotonic()
        try:
            return self.target.put(path)
        finally:
            took_s = time.monotonic() - start
            self.spent_s += took_s
            self.overhead += Overhead(upload_s=took_s)

    def ask(self, verb: str, *, deadline_s: float | None = None, **arguments: Any) -> Any:
        """One job while the host is quiet; its reply.

        Raises:
            CandidateError: The candidate cannot be used.
            ModelError: The baseline cannot be used.
            DeviceError: The device cannot do what was asked.
        """
        limit = self.deadline_s if deadline_s is None else deadline_s
        with self.quiet:
            start = time.monotonic()
            try:
                reply = self.target.request(verb, deadline_s=limit, **arguments)
            finally:
                self.spent_s += time.monotonic() - start
        if reply["ok"]:
            self.overhead += _builds(reply)
            return reply
        raise _refusal(reply["error"], self.target.name, verb)


def _builds(reply: Mapping[str, Any]) -> Overhead:
    """The engines that a job built: of its one model, or of both."""
    parts: list[Any] = [reply, reply.get("candidate"), reply.get("baseline")]
    seconds = [
        float(each)
        for part in parts
        if isinstance(part, Mapping)
        for each in cast("Mapping[str, Any]", part).get("build_s") or ()
    ]
    return Overhead(builds=len(seconds), build_s=sum(seconds))


def settings_of(settings: RuntimeSettings) -> dict[str, Any]:
    """Runtime settings as the agent takes them."""
    found: dict[str, Any] = {
        "provider": settings.provider,
        "threads": settings.threads,
        "spinning": settings.spinning,
        "optimization": settings.optimization,
        "options": dict(settings.options),
    }
    if settings.affinity:
        found["affinity"] = list(settings.affinity)
    return found


def _refusal(error: Mapping[str, str], device: str, verb: str) -> Exception:
    code, phase = error["code"], error.get("phase", "")
    if code == "bad_request":
        return EdgeOptError(f"the agent refused {verb}: {error['text']}", where=device)
    blameless = phase in {"start", "import"} and code not in {"oom"}
    if code not in _OF_THE_CANDIDATE or blameless:
        return DeviceError(error["text"], where=device, hint=error["hint"])
    reason = f"{_WORDS[code]} ({phase or verb}): {error['text']}"
    sudden = code in _SUDDEN
    if phase.endswith("baseline") and not sudden:
        return ModelError(
            f"the baseline cannot be measured: {reason}",
            where=device,
            hint=error["hint"] or "check that the given model runs on this device",
        )
    return CandidateError(Failure(stage=_stage(phase), reason=reason, sudden=sudden))


def _stage(phase: str) -> str:
    return "run" if phase.startswith("run") else "load"
