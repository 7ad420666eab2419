"""`edgeopt run`: the search."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli import options
from edgeopt.errors import UsageError

FAMILIES = "rewrite,fuse,quantize,prune,repair"
OBJECTIVES = "latency,energy,accuracy,size,peak_memory"


def command(
    model: options.Model,
    device: options.Device = "local",
    data: options.Data = None,
    metric: options.Metric = None,
    budget: Annotated[str, typer.Option(help="Wall time, such as 20m or 2h.")] = "20m",
    trials: Annotated[int | None, typer.Option(help="At most so many candidates.")] = None,
    strategy: Annotated[
        str, typer.Option(help="Search after `static`; portfolio unless another is named.")
    ] = "",
    policy: Annotated[
        Path | None, typer.Option(help="Weights of `edgeopt train`, for portfolio, rl, rl_group.")
    ] = None,
    actions: Annotated[str, typer.Option(help="Families of actions that may be used.")] = FAMILIES,
    objectives: Annotated[str, typer.Option(help="What is optimised.")] = OBJECTIVES,
    max_drop: Annotated[str, typer.Option(help="Accuracy that may be lost: 1pt or 1%.")] = "1pt",
    max_latency: Annotated[str | None, typer.Option(help="Such as 8ms.")] = None,
    max_size: Annotated[str | None, typer.Option(help="Such as 4MB.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="x=1x3x224x224; for free axes without data.")
    ] = None,
    freeze: Annotated[
        list[str] | None,
        typer.Option(help="x=1x3x48x192 or rate=16000: the shape or number it always has."),
    ] = None,
    drop_output: Annotated[
        list[str] | None,
        typer.Option(help="aux: an output that you do not need; built models may lack it."),
    ] = None,
    threads: Annotated[
        str, typer.Option(help="Of the runtime; `auto` searches threads, spinning, processors too.")
    ] = "1",
    rate: Annotated[
        str | None, typer.Option(help="Inferences a second that you need, such as 30/s.")
    ] = None,
    wait: Annotated[
        str | None, typer.Option(help="Wait for an idle device before a measurement, such as 60s.")
    ] = None,
    ops: Annotated[str, typer.Option(help="`any`, or `onnx` to forbid vendor operators.")] = "any",
    seed: Annotated[int, typer.Option(help="Of data splitting and search.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget earlier trials.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say the plan and stop.")] = False,
    out: options.Out = None,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Search for the best deployable models on a device; goes on where it was stopped."""
    from edgeopt.api.frozen import parsed
    from edgeopt.api.request import RunRequest
    from edgeopt.api.run import plan_request, run_request
    from edgeopt.units import parse_bytes, parse_drop, parse_duration_s, parse_rate_hz

    if ops not in {"any", "onnx"}:
        raise UsageError(f"--ops takes any or onnx, not {ops!r}", hint="write --ops onnx")
    request = RunRequest(
        model=model,
        device=device,
        data=data,
        metric=metric,
        budget_s=parse_duration_s(budget),
        trials=trials,
        strategy=strategy,
        policy=policy,
        families=_names(actions),
        objectives=_names(objectives),
        max_drop=parse_drop(max_drop),
        max_latency_s=None if max_latency is None else parse_duration_s(max_latency),
        max_size_bytes=None if max_size is None else parse_bytes(max_size),
        shapes=dict(shape_of(text) for text in shape or ()),
        freeze=parsed(freeze or ()),
        drop_outputs=tuple(drop_output or ()),
        threads=1 if threads == "auto" else threads_of(threads),
        tune=threads == "auto",
        rate_hz=None if rate is None else parse_rate_hz(rate),
        wait_s=0.0 if wait is None else parse_duration_s(wait),
        contrib=ops == "any",
        seed=seed,
        fresh=fresh,
        out=out,
        store=store,
    )
    if dry_run:
        plan = plan_request(request, progress=_tell)
        print(json.dumps(plan, indent=2) if as_json else plan["text"])
        return
    interrupt = _Interrupt()
    result = run_request(
        request,
        progress=_tell,
        stopped=interrupt.asked,
        command=" ".join(["edgeopt", *sys.argv[1:]]),
    )
    if as_json:
        print(json.dumps(result.document, indent=2))
    else:
        print(options.styled(result.page(options.width())), end="")
    if result.interrupted:
        raise typer.Exit(130)
    if not result.feasible:
        raise typer.Exit(1)


class _Interrupt:
    """Ctrl-C once finishes the current measurement and saves; twice stops at once."""

    def __init__(self) -> None:
        self._asked = False
        signal.signal(signal.SIGINT, self._on_signal)

    def asked(self) -> bool:
        """Whether the person wants it to end."""
        return self._asked

    def _on_signal(self, *_: object) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        _tell("stopping after this measurement; press Ctrl-C again to stop at once")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def threads_of(text: str) -> int:
    """A number of threads.

    Raises:
        UsageError: It is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is not a number of threads", hint="write --threads 2 or auto")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def shape_of(text: str) -> tuple[str, tuple[int, ...]]:
    """`x=1x3x224x224` as name and sizes.

    Raises:
        UsageError: It is not a shape.
    """
    name, _, sizes = text.rpartition("=")
    try:
        return name, tuple(int(size) for size in sizes.split("x")) if sizes else ()
    except ValueError as error:
        raise UsageError(f"{text!r} is not a shape", hint="write --shape x=1x3x224x224") from error
