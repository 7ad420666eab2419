"""First guesses with everything in integers."""

from edgeopt.core.action import Action, Choice
from edgeopt.transforms.guesses import TAILS, as_gemms, first_guesses, int8_everything


def _choice(name: str, family: str, *transforms: str) -> Choice:
    actions = tuple((Action.of(transform, name),) for transform in transforms)
    labels = ("off", *transforms)
    return Choice(name=name, family=family, labels=labels, alternatives=((), *actions))


RANGES = _choice("quantize:*", "quantize", "calibrate")
GROUP = _choice("quantize:a", "quantize", "static_qdq")
BIAS = _choice("repair:bias_correction", "repair", "bias_correction")


def test_with_averages_with_extremes_and_with_biases_corrected() -> None:
    """What clips gains on some models and loses on others: both are guessed."""
    found = int8_everything([RANGES, GROUP, BIAS], (), None)
    assert found == {
        "int8_everything": [1, 1, 0],
        "int8_extremes": [0, 1, 0],
        "int8_everything+bias": [1, 1, 1],
    }


def test_tails_are_left_out_with_biases_corrected() -> None:
    """A guess of its own, and with Relu for the first half of smooth activations another."""
    methods = ("average", "p99.99")
    ranges = Choice(
        name="quantize:*",
        family="quantize",
        labels=("off", *methods),
        alternatives=((), *((Action.of("calibrate", "*", range=how),) for how in methods)),
    )
    smooth = [_choice(f"prune:{n}", "prune", "relu_activation") for n in ("a", "b", "c")]
    mend = _choice("repair:least_squares", "repair", "least_squares")
    found = first_guesses([*smooth, mend, ranges, GROUP, BIAS], (), None)
    assert found[TAILS] == [0, 0, 0, 0, 2, 1, 1]
    assert found[f"{TAILS}+relu"] == [1, 1, 0, 1, 2, 1, 1]
    assert TAILS not in first_guesses([ranges, GROUP], (), None), "no biases to correct"
    assert f"{TAILS}+relu" not in first_guesses([ranges, GROUP, BIAS], (), None)


def test_what_is_no_choice_makes_no_guess() -> None:
    """Without a choice of ranges, or of the repair, there is one guess fewer; a stem is left."""
    stem = _choice("quantize:stem", "quantize", "static_qdq")
    assert int8_everything([stem, GROUP], (), "stem") == {"int8_everything": [0, 1]}
    assert list(int8_everything([RANGES, GROUP], (), None)) == ["int8_everything", "int8_extremes"]


def test_what_may_be_a_gemm_is_one_in_a_guess_of_its_own() -> None:
    """Which of both is faster depends on the processor; what is off stays off."""
    plain, gemm = (Action.of("static_qdq", "b", **form) for form in ({}, {"gemm": True}))
    pointwise, product = (
        Choice(
            name=f"quantize:{site}",
            family="quantize",
            labels=("off", "one", "other"),
            alternatives=((), *((action,) for action in order)),
        )
        for site, order in (("b", (plain, gemm)), ("c", (gemm, plain)))
    )
    choices = [GROUP, pointwise, product]
    assert as_gemms(choices, [1, 1, 1]) == {"int8_gemm": [1, 2, 1]}
    assert as_gemms(choices, [1, 0, 1]) == {}, "it would be another name for the same"
    assert first_guesses(choices, (), None)["int8_gemm"] == [1, 2, 1]
    assert "int8_gemm" not in first_guesses([GROUP, product], (), None)
