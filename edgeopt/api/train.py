"""`edgeopt train`: a policy for the search, from the shipped weights or anew; all simulated."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgeopt.api.workspace import ensure_folder
from edgeopt.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from edgeopt.search.policy.generated import Pair

METHODS = {"group": "rl_group", "ppo": "rl"}
"""How a policy is reinforced, and the strategy whose shipped weights it goes on from."""
_PACKAGES = {"group": ("torch",), "ppo": ("torch", "stable_baselines3", "sb3_contrib")}
_FILES = ("checkpoint.pt", "ppo.zip", "policy.safetensors")
_LESSONS = 1500
_SHARE = 8

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """A training, as asked for.

    Args:
        out: Folder for the policy and its checkpoints.
        method: `group` (groups of rollouts, no critic) or `ppo` (MaskablePPO of sb3-contrib).
        from_scratch: Imitation first, from random weights; else on from the shipped ones.
        rounds: Of `group`: iterations of 128 rollouts.
        steps: Of `ppo`: steps of the environment.
        lessons: Of imitation; None is usual: none on from weights that had it.
        instances: Simulated models and devices to learn from.
        models: Real models to learn from as well: files, or names of the zoo. Each counts as an
            eighth of the instances, on as many simulated devices.
        data: Of the one model that is no zoo model.
        store: The workspace, where damages are kept.
        seed: Of everything that is drawn.
        fresh: Begin again where the folder has a checkpoint.
    """

    out: Path = Path("policy")
    method: str = "group"
    from_scratch: bool = False
    rounds: int = 60
    steps: int = 30_000
    lessons: int | None = None
    instances: int = 120
    models: tuple[str, ...] = ()
    data: str | None = None
    store: Path | None = None
    seed: int = 0
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What came of it.

    Args:
        policy: File for `--policy`.
        strategy: Strategy that it is for.
        finished: False where it was stopped: the same command goes on.
    """

    policy: Path
    strategy: str
    finished: bool


def train_request(
    request: TrainRequest, *, progress: Progress, stopped: Callable[[], bool]
) -> TrainResult:
    """Train, or go on with the training that the folder holds.

    Raises:
        UsageError: A name or number is wrong, or a package is missing.
    """
    _checked(request)
    import numpy as np

    from edgeopt.search.policy.course import Course
    from edgeopt.search.policy.generated import generated
    from edgeopt.search.policy.learner import Settings
    from edgeopt.search.policy.training import Training
    from edgeopt.search.policy.weights import POLICY, begun, load

    ensure_folder(request.out)
    if request.fresh:
        for name in _FILES:
            (request.out / name).unlink(missing_ok=True)
        shutil.rmtree(request.out / "tensorboard", ignore_errors=True)
    strategy = METHODS[request.method]
    begin = begun(strategy, request.seed, anew=request.from_scratch)
    progress(f"drawing {request.instances} simulated models and planning on them")
    generator = np.random.default_rng([request.seed, 3])
    pairs = [generated(generator) for _ in range(request.instances)]
    pairs += _real(request, generator, progress)
    course = Course.of(pairs, generator)
    lessons = _LESSONS * request.from_scratch if request.lessons is None else request.lessons
    settings = Settings(
        seed=request.seed,
        lessons=lessons,
        rounds=request.rounds if request.method == "group" else 0,
    )
    path = request.out / POLICY
    imitated = (request.out / "ppo.zip").exists()
    finished = True
    if request.method == "group" or (lessons and not imitated):
        training = Training(request.out, settings, begin.weights, begin.origin, progress)
        finished = training.run(course, stopped)
    if request.method == "ppo" and finished:
        from edgeopt.search.policy.ppo import PpoSettings, trained

        start = load(path) if lessons else begin
        ppo = PpoSettings(seed=request.seed, steps=request.steps)
        finished = trained(request.out, ppo, start, course, progress, stopped)
    return TrainResult(policy=path, strategy=strategy, finished=finished)


def _real(
    request: TrainRequest, generator: "np.random.Generator", progress: Progress
) -> "list[Pair]":
    """The user's models, each on devices that are drawn."""
    from edgeopt.api.environment import open_plans
    from edgeopt.search.policy.real import on_a_device

    found: list[Pair] = []
    for model in request.models:
        progress(f"estimating what each choice of {model} gains and hurts")
        with open_plans(model, request.data, "local", request.store) as (plans, _):
            table, sizes = plans.table.table, plans.sizes
        for _ in range(max(request.instances // _SHARE, 1)):
            found.append(on_a_device(plans.choices, table, sizes, generator))
    return found


def _checked(request: TrainRequest) -> None:
    if request.method not in METHODS:
        raise UsageError(
            f"there is no method {request.method!r}", hint=f"known: {', '.join(METHODS)}"
        )
    numbers = {
        "--rounds": request.rounds,
        "--steps": request.steps,
        "--instances": request.instances,
    }
    for option, number in numbers.items():
        if number < 1:
            raise UsageError(f"{option} must be at least 1, not {number}", hint="leave it out")
    if request.data is not None and len(request.models) != 1:
        raise UsageError("--data is of one --model", hint="models of the zoo bring their own data")
    if (request.lessons or 0) < 0:
        raise UsageError("--lessons must not be negative", hint="leave it out")
    missing = [name for name in _PACKAGES[request.method] if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"training needs {', '.join(name.replace('_', '-') for name in missing)}, which is "
            "not installed",
            hint="pip install 'edgeopt[rl]' (using a trained policy needs none of it)",
        )
