"""`edgeopt train`: a search policy of one's own."""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from edgeopt.cli import options


def command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the policy and its checkpoints.")
    ] = Path("policy"),
    method: Annotated[
        str, typer.Option(help="`group`, or `ppo` (MaskablePPO of sb3-contrib).")
    ] = "group",
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Imitate plans first, from random weights.")
    ] = False,
    rounds: Annotated[int, typer.Option(help="Of group: iterations of 128 rollouts.")] = 60,
    steps: Annotated[int, typer.Option(help="Of ppo: steps of the environment.")] = 30_000,
    lessons: Annotated[
        int | None, typer.Option(help="Steps of imitation; 1500 from scratch, else none.")
    ] = None,
    instances: Annotated[
        int, typer.Option(help="Simulated models and devices to learn from.")
    ] = 120,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A real model to learn from as well (repeatable): a file, or a name."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Of the one --model that is a file.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin again where the folder has a checkpoint.")
    ] = False,
    store: options.Store = None,
    as_json: options.Json = False,
) -> None:
    """Train a policy for the search on simulated devices; goes on where it stopped."""
    from edgeopt.api.train import TrainRequest, train_request

    request = TrainRequest(
        out=out,
        method=method,
        from_scratch=from_scratch,
        rounds=rounds,
        steps=steps,
        lessons=lessons,
        instances=instances,
        models=tuple(model or ()),
        data=data,
        store=store,
        seed=seed,
        fresh=fresh,
    )
    asked: list[int] = []

    def interrupted(*_: object) -> None:
        """Ctrl-C once ends after this step and saves; twice stops at once."""
        if asked:
            raise KeyboardInterrupt
        asked.append(1)
        options.tell("stopping after this step; press Ctrl-C again to stop at once")

    signal.signal(signal.SIGINT, interrupted)
    result = train_request(request, progress=options.tell, stopped=lambda: bool(asked))
    if as_json:
        document = {
            "schema_version": 1,
            "policy": str(result.policy),
            "strategy": result.strategy,
            "finished": result.finished,
        }
        print(json.dumps(document, indent=2))
    elif result.finished:
        print(
            f"{result.policy}: use it with `edgeopt run MODEL --strategy {result.strategy} "
            f"--policy {shlex.quote(str(result.policy))}`"
        )
    else:
        print(f"{result.policy}: stopped early; the same command goes on", file=sys.stderr)
        raise typer.Exit(130)
