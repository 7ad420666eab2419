"""What we would try first, as codes of the choices of a space, by name and most promising first."""

from collections.abc import Collection, Mapping, Sequence

from edgeopt.core.action import Action, Choice
from edgeopt.transforms.base import EXACT
from edgeopt.transforms.canonicalize import NAME
from edgeopt.transforms.choices import scheme_of, switched_on
from edgeopt.transforms.macros import IN_FLOAT, IN_INTEGERS, STEM

_TOGETHER = {
    "dynamic_int8": ("dynamic_int8",),
    "small_int8": ("size_int8", "dynamic_int8", "static_int8"),
}
"""Standard candidates by name: every choice at its first alternative of the first of these."""
HALF, INTEGERS = "float16", "int8_everything"
WITH_HALF = frozenset({"exact", INTEGERS})
"""Standard candidates that are also tried with everything that they leave float in float16."""

GATES, NARROW, HALF_WIDTH = "static_gates", "narrow", "half_width"
"""Standard candidates with something pruned: gates held; and every width at its first alternative
(a quarter removed), or the one nearest to a half. All with what repairs them at once."""
_HALF_OF_FIRST = 2 / 3
TAILS = "int8_percentile+bias"
"""Everything in integers, with ranges that leave the rarest values out, and corrected biases."""
_BIAS, _TAILS = "repair:bias_correction", "p99.99"
_RANGES = "quantize:*"
"""The choice of how ranges are found: extremes, where it is off."""
HALF_WITH_RELU = f"{HALF_WIDTH}+relu"
"""Of half the width, every smooth activation a Relu; only where it can be trained then."""
_GATE, _CHANNELS, _RELU = "static_gate", "channels_", "relu_activation"
ALWAYS_WITH_PRUNING = frozenset({"repair:least_squares"})


def first_guesses(
    choices: Sequence[Choice], macros: Sequence[Choice], stem: str | None, *, trains: bool = False
) -> dict[str, list[int]]:
    """Exact with macros, everything in integers, pruned, one scheme everywhere, then parts of it.

    Args:
        choices: Of the space, the macros among them.
        macros: Those that need others to pay.
        stem: Site of the first layer where it may be left alone; None where it may not.
        trains: Whether what is pruned may be trained then.
    """
    families = {choice.family for choice in choices}
    exact = frozenset(families & EXACT)
    found: dict[str, list[int]] = {}
    if exact and any(choice.name in IN_FLOAT for choice in macros):
        found["exact_all"] = switched(choices, macros, exact, named=IN_FLOAT)
    if "quantize" in families:
        found |= int8_everything(choices, macros, stem)
    if {"quantize", "prune"} <= families:
        found |= with_relu(choices, found)
    if "prune" in families:
        found |= pruned(choices, macros, trains=trains)
    if "quantize" in families:
        found |= as_gemms(choices, found[INTEGERS]) | by_scheme(choices, macros)
    if exact:
        found["exact"] = switched(choices, macros, exact)
        found[NAME] = [int(choice.name.endswith(f":{NAME}")) for choice in choices]
    if "quantize" in families:
        found["exact+quantize"] = switched(choices, macros, exact | {"quantize"})
        if macros:
            every = frozenset(choice.name for choice in macros)
            codes = switched(choices, macros, exact | {"quantize"}, named=every)
            found["exact_all+quantize"] = codes
    return found


def switched(
    choices: Sequence[Choice],
    macros: Sequence[Choice],
    families: Collection[str],
    *,
    named: Collection[str] = (),
) -> list[int]:
    """The first alternative of every choice of some families; of named macros the last."""
    return [
        (len(choice) - 1) * (choice.name in named)
        if choice in macros
        else switched_on(choice, families)
        for choice in choices
    ]


def by_scheme(choices: Sequence[Choice], off: Collection[Choice]) -> dict[str, list[int]]:
    """Codes by name: exact choices on but for some, all groups in one scheme where they can."""
    quantized = [choice for choice in choices if choice.family == "quantize"]
    found: dict[str, list[int]] = {}
    for name, schemes in _TOGETHER.items():
        if any(_in_scheme(choice, schemes[:1]) for choice in quantized):
            found[name] = [
                _in_scheme(choice, schemes)
                if choice.family == "quantize"
                else int(choice.family in EXACT and choice not in off)
                for choice in choices
            ]
    return found


def int8_everything(
    choices: Sequence[Choice], off: Collection[Choice], stem: str | None
) -> dict[str, list[int]]:
    """Codes by name: every group in integers but the stem, alone, with ranges that are the
    extremes of what was seen, and with its biases corrected.

    What a search begins with and releases groups from: on most models the best is everything but
    a handful. A stem that is not left alone is rewritten for integers where it can be. Ranges that
    clip gain on clean samples and may lose on noisy ones what the extremes keep: with them AlexNet
    lost 1.28 points under noise, and 0.09 without. A text recogniser lost 3.6 points under noise
    with averages, 5.2 clean ones with extremes, and 0.1 of both with percentiles and corrected
    biases.
    """
    families = EXACT | {"quantize"}
    codes = [
        (len(choice) - 1) * (choice.name in IN_INTEGERS and (not stem or choice.name != STEM))
        if choice in off
        else (choice.name != f"quantize:{stem}") * switched_on(choice, families)
        for choice in choices
    ]
    extremes = _with(choices, codes, _RANGES, 0)
    corrected = _with(choices, codes, _BIAS, 1)
    tails = _at_label(choices, corrected, _RANGES, _TAILS)
    found = {
        INTEGERS: codes,
        "int8_extremes": extremes,
        TAILS: tails,
        "int8_everything+bias": corrected,
    }
    if tails == corrected or corrected == codes:
        del found[TAILS]
    return {name: row for name, row in found.items() if row is codes or row != codes}


def with_relu(
    choices: Sequence[Choice], found: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """Codes by name: in integers, with Relu for the smooth activations of the first half.

    A GELU in integers is two passes, a Relu none. Least squares bring back half of them (a text
    recogniser is 2.29 times as fast as the given net, and 2.13 without), and seldom all.
    """
    smooth = [choice.name for choice in choices if _does(choice, _RELU)]
    first = {*smooth[: (len(smooth) + 1) // 2], *ALWAYS_WITH_PRUNING}
    start = found.get(TAILS) if smooth else None
    if start is None:
        return {}
    pairs = zip(choices, start, strict=True)
    return {f"{TAILS}+relu": [1 if choice.name in first else code for choice, code in pairs]}


def as_gemms(choices: Sequence[Choice], codes: Sequence[int]) -> dict[str, list[int]]:
    """Codes by name: a Gemm for everything in integers that may be one; none where nothing may.

    The fastest where the runtime multiplies tiles: of 240 x 384 x 768 products it made 630 billion
    a second as Gemm and 350 as convolution, on a processor of the same family where it multiplied
    vectors 230 and 265.
    """
    made = [
        next((new for new, held in enumerate(choice.alternatives) if code and _is_gemm(held)), code)
        for choice, code in zip(choices, codes, strict=True)
    ]
    return {} if made == list(codes) else {"int8_gemm": made}


def _is_gemm(alternative: Sequence[Action]) -> bool:
    """Whether an alternative writes what it quantizes as a Gemm."""
    held = [dict(action.parameters) for action in alternative]
    return any(parameters.get("gemm", False) for parameters in held)


def _with(choices: Sequence[Choice], codes: Sequence[int], name: str, code: int) -> list[int]:
    """Codes with another one for the choice of a name."""
    return [
        code if choice.name == name else old for choice, old in zip(choices, codes, strict=True)
    ]


def pruned(
    choices: Sequence[Choice], macros: Sequence[Choice], *, trains: bool = False
) -> dict[str, list[int]]:
    """Codes by name: everything exact, gates held, and all widths alike; pruning repaired.

    The narrow one also in integers: precision is chosen after widths, and pays less the narrower
    the layers are. Least squares alone bring more narrow nets back than nets of half the width; a
    training brings back these, so where one is offered they come first.
    """
    gates = {choice.name for choice in choices if _does(choice, _GATE)}
    widths = {choice.name for choice in choices if _does(choice, _CHANNELS)}
    smooth = {choice.name for choice in choices if _does(choice, _RELU)}
    exact = switched(choices, macros, EXACT, named=IN_FLOAT)
    integers = switched(choices, macros, EXACT | {"quantize"})

    def cut(start: Sequence[int], share: float, on: Collection[str] = gates) -> list[int]:
        """With widths at a share of their first alternative; at 0 as they are."""
        return [
            1
            if choice.name in on or choice.name in ALWAYS_WITH_PRUNING
            else _nearest(choice, share)
            if choice.name in widths
            else code
            for choice, code in zip(choices, start, strict=True)
        ]

    found = {GATES: cut(exact, 0)} if gates else {}
    if widths:
        cuts = {NARROW: cut(exact, 1), HALF_WIDTH: cut(exact, _HALF_OF_FIRST)}
        if trains and smooth:
            found[HALF_WITH_RELU] = cut(exact, _HALF_OF_FIRST, gates | smooth)
        found |= dict(reversed(cuts.items())) if trains else cuts
        if any(choice.family == "quantize" for choice in choices):
            found[f"{NARROW}+quantize"] = cut(integers, 1)
    return found


def _nearest(choice: Choice, share: float) -> int:
    """The width that keeps nearest to a share of what the first keeps; 0 for a share of 0."""
    kept = {
        code: _units(actions[0])
        for code, actions in enumerate(choice.alternatives)
        if actions and actions[0].transform.startswith(_CHANNELS)
    }
    wanted = share * next(iter(kept.values()))
    return min(kept, key=lambda code: abs(kept[code] - wanted)) if share else 0


def _units(action: Action) -> int:
    """How many units an action keeps."""
    return sum(int(part) for part in str(action.get("keep")).split("/"))


def _at_label(choices: Sequence[Choice], codes: Sequence[int], name: str, label: str) -> list[int]:
    """Codes with the alternative of a label for the choice of a name, where it has one."""
    return [
        choice.labels.index(label) if choice.name == name and label in choice.labels else old
        for choice, old in zip(choices, codes, strict=True)
    ]


def _does(choice: Choice, transform: str) -> bool:
    """Whether an alternative of a prune choice is done by a transform of such a name."""
    actions = [action for alternative in choice.alternatives for action in alternative]
    return choice.family == "prune" and any(a.transform.startswith(transform) for a in actions)


def _in_scheme(choice: Choice, schemes: Sequence[str]) -> int:
    """The first alternative of the first of these schemes that the choice has; 0 without one."""
    for scheme in schemes:
        for code, actions in enumerate(choice.alternatives):
            if actions and all(scheme_of(action) == scheme for action in actions):
                return code
    return 0
