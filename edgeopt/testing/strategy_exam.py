"""The exam of the shelf `search/strategies`: what every strategy must keep, on any space.

    from edgeopt.testing.strategy_exam import examine
    def test_my_strategy():
        examine(PLUGIN)

Each part raises AssertionError with a sentence that says what was broken.
"""

from collections.abc import Sequence

from edgeopt.core.action import Action, Recipe
from edgeopt.core.candidate import Candidate
from edgeopt.core.protocols import Strategy, StrategyFactory
from edgeopt.testing.toy_space import OBJECTIVES, ToyDevice, ToySpace

_VERBS = frozenset(
    {
        "choices",
        "runtimes",
        "empty",
        "decode",
        "legal",
        "then",
        "standard",
        "guesses",
        "observe",
        "static_cost",
    }
)
_BATCHES = (1, 5, 2, 8, 3, 1, 7)


class SealedSpace:
    """A space that answers the protocol's verbs and nothing else."""

    def __init__(self, inner: ToySpace) -> None:
        self._inner = inner

    def __getattribute__(self, name: str) -> object:
        """Pass the protocol's verbs on.

        Raises:
            AssertionError: Anything else was asked for.
        """
        if name in _VERBS:
            return getattr(object.__getattribute__(self, "_inner"), name)
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"the strategy reached into the space: {name}")


def examine(factory: StrategyFactory) -> None:
    """Every part of the exam."""
    keeps_count_and_never_repeats(factory)
    proposes_valid_recipes(factory)
    is_deterministic(factory)
    goes_on_after_a_kill(factory)
    survives_failures_and_strangers(factory)
    takes_partial_results(factory)
    comes_to_an_end(factory)
    lives_without_choices(factory)


def begin(factory: StrategyFactory, space: ToySpace, seed: int = 0) -> Strategy:
    """A strategy that sees the protocol of the space only."""
    sealed: object = SealedSpace(space)
    return factory(sealed, seed=seed, objectives=OBJECTIVES)  # pyright: ignore[reportArgumentType]


def drive(
    strategy: Strategy, device: ToyDevice, batches: Sequence[int]
) -> list[tuple[Candidate, ...]]:
    """Ask and tell in batches; what was asked, batch by batch."""
    asked: list[tuple[Candidate, ...]] = []
    for size in batches:
        candidates = tuple(strategy.ask(size))
        done = sum(len(batch) for batch in asked)
        strategy.tell(device.measure(candidates, start=done))
        asked.append(candidates)
    return asked


def keeps_count_and_never_repeats(factory: StrategyFactory) -> None:
    """No more candidates than asked for, and no key twice."""
    space = ToySpace()
    strategy = begin(factory, space)
    assert not strategy.ask(0), "asked for nothing, it proposed something"
    asked = drive(strategy, ToyDevice(space), _BATCHES)
    for size, batch in zip(_BATCHES, asked, strict=True):
        assert len(batch) <= size, f"asked for {size}, it proposed {len(batch)}"
    keys = [candidate.key for batch in asked for candidate in batch]
    assert len(set(keys)) == len(keys), "it proposed a candidate twice"
    assert keys, "it proposed nothing at all"


def proposes_valid_recipes(factory: StrategyFactory) -> None:
    """Every recipe starts from the baseline, applies action by action, and reads back."""
    space = ToySpace()
    asked = drive(begin(factory, space), ToyDevice(space), _BATCHES)
    for candidate in (candidate for batch in asked for candidate in batch):
        recipe: Recipe | str = space.empty()
        for action in candidate.recipe.actions:
            recipe = space.then(recipe, action)
            assert not isinstance(recipe, str), f"{action.text} does not apply: {recipe}"
        assert recipe == candidate.recipe, "the recipe is not in the space's canonical order"
        assert Recipe.parse(candidate.recipe.text) == recipe, "the recipe does not read back"


def is_deterministic(factory: StrategyFactory) -> None:
    """Equal seeds and equal results give equal questions."""
    space = ToySpace()
    first, second = (drive(begin(factory, space, 7), ToyDevice(space), _BATCHES) for _ in range(2))
    assert first == second, "the same seed and the same results gave other candidates"


def goes_on_after_a_kill(factory: StrategyFactory) -> None:
    """Driven again by the same asks and tells, it asks next what it would have asked."""
    space, device = ToySpace(), ToyDevice(ToySpace())
    whole = drive(begin(factory, space, 3), device, _BATCHES)
    resumed = begin(factory, space, 3)
    drive(resumed, device, _BATCHES[:4])
    done = sum(len(batch) for batch in whole[:4])
    for size, expected in zip(_BATCHES[4:], whole[4:], strict=True):
        again = tuple(resumed.ask(size))
        assert again == expected, "after a replay of the same trials it asked something else"
        resumed.tell(device.measure(again, start=done))
        done += len(again)


def survives_failures_and_strangers(factory: StrategyFactory) -> None:
    """Trials of others are taken, never asked for again; so are devices on which all fails."""
    space = ToySpace()
    strategy, device = begin(factory, space), ToyDevice(space, failing=1.0)
    strangers = [candidate for _, candidate in space.standard()]
    strategy.tell(())
    strategy.tell(device.measure(strangers, strategy="another"))
    asked = drive(strategy, device, _BATCHES)
    known = {candidate.key for candidate in strangers}
    repeated = [c for batch in asked for c in batch if c.key in known]
    assert not repeated, "it asked for what another strategy had measured"
    unknown = space.empty().then(Action.of("whole_tool", "*"))
    strategy.tell(device.measure([Candidate(recipe=unknown)], strategy="another"))
    strategy.ask(4)


def takes_partial_results(factory: StrategyFactory) -> None:
    """Some results of a batch may come late, in pieces, or more than once."""
    space = ToySpace()
    strategy, device = begin(factory, space), ToyDevice(space)
    first = device.measure(tuple(strategy.ask(6)))
    strategy.tell(first[:2])
    second = strategy.ask(3)
    strategy.tell(first[2:])
    strategy.tell(first[:1])
    third = strategy.ask(3)
    keys = [trial.candidate.key for trial in first] + [c.key for c in (*second, *third)]
    assert len(set(keys)) == len(keys), "late results made it repeat itself"


def comes_to_an_end(factory: StrategyFactory) -> None:
    """On a space of few recipes it says so by proposing nothing, and keeps saying so."""
    space = ToySpace(sites=1, rewrites=2)
    strategy, device = begin(factory, space), ToyDevice(space)
    for _ in range(100):
        candidates = tuple(strategy.ask(4))
        if not candidates:
            break
        strategy.tell(device.measure(candidates))
    else:
        raise AssertionError("it never came to an end on a space of 33 recipes")
    assert not strategy.ask(4), "after its end it proposed something again"


def lives_without_choices(factory: StrategyFactory) -> None:
    """A model to which nothing can be done is no error."""
    space = ToySpace(sites=0, rewrites=0)
    asked = drive(begin(factory, space), ToyDevice(space, failing=0.0), (2, 2))
    assert all(c.recipe == space.empty() for batch in asked for c in batch)
