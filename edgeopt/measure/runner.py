"""`measure`: one candidate on one device, from files to values with a verdict."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.measurement import Failure, Overhead, Value, Verdict
from edgeopt.core.protocols import Target
from edgeopt.errors import MeterError
from edgeopt.measure.circumstances import BUSY
from edgeopt.measure.energy import Energy, EnergyPlan, run_energy
from edgeopt.measure.jobs import BUILD_S, COMPILING, CandidateError, Device, settings_of
from edgeopt.measure.metrics import evaluate
from edgeopt.measure.pacing import paced_values
from edgeopt.measure.placement import fallback, placement_text
from edgeopt.measure.plan import Protocol
from edgeopt.measure.raw import RawRun, Side
from edgeopt.measure.verdicts import disturbed, judge

BUSY_WINDOW_S = 3.0
COOL_C = 3.0
_GRACE_S = 60.0
# A runtime takes about this many times a model's bytes to load and run it.
_PEAK_PER_BYTE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one measurement found.

    Args:
        values: By metric: `latency`, `size`, `peak_memory`, `load`, `first_run`; `build` and
            `engine_size` where the provider compiles, `latency_p90` and `latency_p99` where the
            protocol has them, `paced_latency` and `deadline_misses` where a rate was given;
            `energy`, `energy_net`, `power` and, at a rate, `paced_energy` where there is a sensor.
        absent: Metric to the reason why it has no value.
        verdict: Whether it holds.
        environment: Facts of the device during it.
        profile: The agent's `profile` reply: `nodes` in the order of execution; None where it
            could not be profiled.
        device_s: Seconds that the device was busy with it, builds and uploads included.
        overhead: What of them that was.
    """

    values: Mapping[str, Value]
    absent: Mapping[str, str]
    verdict: Verdict
    environment: Mapping[str, str]
    profile: Mapping[str, Any] | None
    device_s: float
    overhead: Overhead = field(default=Overhead())


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
    wait_s: float = 0.0,
    rate_hz: float | None = None,
    together: bool | Literal["auto"] = "auto",
    energy: EnergyPlan | None = None,
) -> Outcome | Failure:
    """Measure a candidate beside the baseline.

    The footprint comes first: it finds out cheaply what cannot be loaded or run. Then come the
    rounds of alternating blocks, each in a fresh process that opens the two models in another
    order, the windows at the user's rate, and last the profile.

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
        wait_s: How long to wait for an idle machine before anything is measured.
        rate_hz: Inferences a second that the user needs; None measures no paced latency.
        together: Whether both sessions may be resident at once; `auto` asks the device's memory.
        energy: How much is run for the energy pass, which comes last; None measures none.

    Raises:
        DeviceError: The device or its agent fails, or lacks the provider.
        ModelError: The baseline cannot be run.
    """
    device = Device(
        target=target,
        quiet=nullcontext() if quiet is None else quiet,
        deadline_s=protocol.deadline_s,
    )
    run = _Run(
        device=device,
        places={"candidate": device.put(candidate), "baseline": device.put(baseline)},
        feeds=device.put(feeds),
        settings={"candidate": settings, "baseline": baseline_settings},
        protocol=protocol,
    )
    same_file = identical or candidate == baseline
    try:
        raw, repeated = run.all(
            wait_s=wait_s,
            rate_hz=rate_hz,
            together=together,
            baseline_bytes=None if same_file else baseline.stat().st_size,
        )
    except CandidateError as error:
        return replace(error.failure, device_s=device.spent_s, overhead=device.overhead)
    values, absent = evaluate(
        raw,
        baseline_s=baseline_latency_s,
        identical=identical,
        quantiles=protocol.percentiles,
    )
    if raw.pace is not None and rate_hz is not None:
        values |= paced_values(raw.pace, rate_hz)
    spent = run.energy(energy, rate_hz)
    return Outcome(
        values={**values, **spent.values},
        absent={**absent, **spent.absent},
        verdict=spent.verdict
        & judge(
            raw,
            protocol=protocol,
            settings=run.settings,
            identical=identical,
            baseline_s=baseline_latency_s,
        ),
        environment={
            **environment(raw.rounds, protocol),
            "placement": placement_text(raw, settings.provider),
            **({"repeated": str(repeated)} if repeated else {}),
            **spent.environment,
        },
        profile=raw.profile,
        device_s=device.spent_s,
        overhead=device.overhead,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One measurement under way: what every job of it needs."""

    device: Device
    places: Mapping[Side, str]
    feeds: str
    settings: Mapping[Side, RuntimeSettings]
    protocol: Protocol

    def all(
        self,
        *,
        wait_s: float,
        rate_hz: float | None,
        together: bool | Literal["auto"],
        baseline_bytes: int | None,
    ) -> tuple[RawRun, int]:
        """Every job in its order; and how many rounds were run in place of disturbed ones."""
        before = self._idle(wait_s) if wait_s or self.protocol.cool_s else None
        footprint = self._footprint()
        memory = {
            "together": together,
            "needs_bytes": self._needs(footprint, baseline_bytes),
        }
        start_c = None if before is None else before["temperature_c"]
        rounds, cooled, repeated = self._rounds(memory, start_c)
        pace = None if rate_hz is None else self._pace(memory, rate_hz)
        profile = self._profile("candidate")
        return RawRun(
            footprint=footprint,
            rounds=rounds,
            profile=profile,
            baseline_profile=self._beside(profile),
            pace=pace,
            waited=before if wait_s else None,
            cooled=cooled,
        ), repeated

    def _alone(self, verb: str, side: Side = "candidate", **more: Any) -> Mapping[str, Any]:
        """A job of one model, always under the candidate's settings."""
        return self.device.ask(
            verb,
            model=self.places[side],
            feeds=self.feeds,
            settings=settings_of(self.settings["candidate"]),
            **more,
        )

    def energy(self, plan: EnergyPlan | None, rate_hz: float | None) -> Energy:
        """The energy pass; what was measured before it stands, whatever becomes of it."""
        try:
            return run_energy(self._alone, plan, rate_hz=rate_hz, protocol=self.protocol.name)
        except CandidateError as error:
            return Energy.nothing(error.failure.reason)
        except MeterError as error:
            return Energy.nothing(error.what)

    def _footprint(self) -> Mapping[str, Any]:
        """The candidate's footprint, and the engines of both built where the providers compile."""
        found = self._alone("footprint", deadline_s=self._build_deadline("candidate"))
        if self.settings["baseline"].provider in COMPILING:
            # A baseline that cannot be built fails in the first round, as the baseline.
            with suppress(CandidateError):
                self.device.ask(
                    "footprint",
                    model=self.places["baseline"],
                    feeds=self.feeds,
                    settings=settings_of(self.settings["baseline"]),
                    deadline_s=self._build_deadline("baseline"),
                )
        return found

    @property
    def _fresh_engines(self) -> bool:
        compiling = any(each.provider in COMPILING for each in self.settings.values())
        return compiling and self.protocol.fresh_engines

    def _build_deadline(self, side: Side) -> float:
        builds = self.settings[side].provider in COMPILING
        return self.protocol.deadline_s + (BUILD_S if builds else 0.0)

    def _beside(self, profile: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The baseline's profile, where the candidate's has nodes on another provider."""
        nodes = () if profile is None else profile["nodes"]
        elsewhere = fallback(nodes, self.settings["candidate"].provider)
        if not elsewhere.count:
            return None
        if self.places["candidate"] == self.places["baseline"]:
            return profile
        return self._profile("baseline")

    def _profile(self, side: Side) -> Mapping[str, Any] | None:
        """A profile; it was loaded and run before, so having none costs layers, not numbers."""
        try:
            return self._alone("profile", side, runs=self.protocol.profile_runs)
        except CandidateError:
            return None

    def _needs(
        self, footprint: Mapping[str, Any], baseline_bytes: int | None
    ) -> dict[Side, int | None]:
        """Peak memory of both; the baseline's is asked for only where it could matter."""
        peak, room = footprint["peak_memory_bytes"], footprint.get("available_bytes")
        if baseline_bytes is None or peak is None or room is None:
            return {"candidate": peak, "baseline": peak if baseline_bytes is None else None}
        rough = _PEAK_PER_BYTE * max(baseline_bytes, int(footprint["size_bytes"]))
        if peak + rough < room / 2:
            return {"candidate": peak, "baseline": rough}
        try:
            return {
                "candidate": peak,
                "baseline": self._alone("footprint", "baseline")["peak_memory_bytes"],
            }
        except CandidateError:
            # Under the candidate's settings the baseline may not run; under its own it shall.
            return {"candidate": peak, "baseline": rough}

    def _pair(self, verb: str, memory: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
        """A job of both models."""
        return self.device.ask(
            verb,
            **self.places,
            feeds=self.feeds,
            settings=settings_of(self.settings["candidate"]),
            baseline_settings=settings_of(self.settings["baseline"]),
            warmup=self.protocol.warmup,
            **memory,
            **more,
        )

    def _rounds(
        self, memory: Mapping[str, Any], start_c: float | None
    ) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]], int]:
        """The rounds of the protocol, what was seen of resting, and how many rounds ran twice."""
        rounds: list[Mapping[str, Any]] = []
        cooled: list[Mapping[str, Any]] = []
        protocol, left = self.protocol, self.protocol.repeats
        fresh = {"engine": "fresh"} if self._fresh_engines else {}
        while len(rounds) < protocol.rounds:
            if start_c is not None and (rounds or left < protocol.repeats):
                cooled.append(self._cool(start_c + COOL_C))
            found = self._pair(
                "bench",
                {**memory, **fresh},
                first="candidate" if len(rounds) % 2 == 0 else "baseline",
                pairs=protocol.pairs,
                min_seconds=protocol.min_seconds,
                min_runs=protocol.min_runs,
                deadline_s=protocol.deadline_s + (2 * BUILD_S if fresh else 0.0),
            )
            if left and disturbed(found, self.settings):
                left -= 1
            else:
                rounds.append(found)
        return rounds, cooled, protocol.repeats - left

    def _pace(self, memory: Mapping[str, Any], rate_hz: float) -> Mapping[str, Any]:
        """Windows at the user's rate."""
        protocol = self.protocol
        periods = protocol.periods(rate_hz)
        return self._pair(
            "pace",
            memory,
            first="candidate",
            rate_hz=rate_hz,
            periods=periods,
            pairs=protocol.pace_pairs,
            deadline_s=protocol.deadline_s + 2 * protocol.pace_pairs * periods / rate_hz,
        )

    def _idle(self, wait_s: float) -> Mapping[str, Any]:
        """Wait for an idle machine; with 0 s only look at it."""
        return self.device.ask(
            "idle",
            at_most_s=wait_s,
            window_s=BUSY_WINDOW_S if wait_s else 0.0,
            busy_share=BUSY if wait_s else None,
            deadline_s=wait_s + _GRACE_S,
        )

    def _cool(self, below_c: float) -> Mapping[str, Any]:
        """Wait until the machine is nearly as cool as it was."""
        wait_s = self.protocol.cool_s
        return self.device.ask(
            "idle", at_most_s=wait_s, below_c=below_c, deadline_s=wait_s + _GRACE_S
        )


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
    # Read between blocks, where a GPU may rest already: told, but it accuses nobody.
    clocks = [block["gpu_clock_hz"] for block in blocks if block.get("gpu_clock_hz") is not None]
    if clocks:
        found["gpu_clock_mhz"] = f"{min(clocks) / 1e6:.0f} to {max(clocks) / 1e6:.0f}"
    if not all(each.get("together", True) for each in rounds):
        found["together"] = "false"
    return found
