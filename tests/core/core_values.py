"""Hypothesis strategies for core's values."""

from hypothesis import strategies as st

from edgeopt.core.action import Action, Recipe

NASTY = [
    "/model/layer.0/Conv_output_0",
    'quote " inside',
    "back\\slash\\",
    'ends with \\"',
    "<- arrow",
    'x" <- ranges="sha256:1',
    "tab\tnew\nline\r",
    "line\u2028separator\x85next\x1cfile",
    "StatefulPartitionedCall:0",
    "層/入力",
    "",
    " spaces ",
    "# comment",
    "*",
]
texts = st.one_of(st.sampled_from(NASTY), st.text(st.characters(codec="utf-8"), max_size=20))
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
keys = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
finite = st.floats(allow_nan=False, allow_infinity=False)
parameters = st.one_of(texts, st.integers(), finite, st.booleans())


@st.composite
def actions(draw) -> Action:
    """Any action that can be written."""
    return Action(
        transform=draw(names),
        version=draw(st.integers(0, 99)),
        site=draw(texts),
        parameters=tuple(sorted(draw(st.dictionaries(keys, parameters, max_size=3)).items())),
        artifacts=tuple(sorted(draw(st.dictionaries(keys, texts, max_size=2)).items())),
    )


digests = st.text("0123456789abcdef", min_size=64, max_size=64).map("sha256:".__add__)


@st.composite
def recipes(draw) -> Recipe:
    """Any recipe."""
    return Recipe(
        baseline=draw(digests),
        actions=tuple(draw(st.lists(actions(), max_size=4))),
        opset=draw(st.integers(0, 25)),
        data=draw(st.one_of(st.just(""), digests)),
    )
