"""Activations that the runtime's fused operators carry as attributes, as operators again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgeopt.transforms.rules.sizes import require
from edgeopt.transforms.rules.terms import Ops, Term

_NUMBERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("low", "high"),
}
"""What each is given, in the order in which `activation_params` lists it."""


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation and its numbers.

    Args:
        name: Operator; empty for none.
        numbers: As many as it takes, by name.
    """

    name: str
    numbers: Mapping[str, float]

    def of(self, op: Ops, x: Term) -> Term:
        """The operator on a value."""
        if not self.name:
            return x
        if self.name == "Clip":
            return op.Clip(x, self.numbers["low"], self.numbers["high"])
        made = getattr(op, self.name)
        return made(x, **self.numbers)


def require_known(name: str) -> None:
    """Ask for an activation that is an operator of the standard.

    Raises:
        Refused: It is another one.
    """
    require(not name or name in _NUMBERS, f"{name} is no activation of the standard")


def from_list(name: str, numbers: Sequence[float]) -> Activation:
    """With its numbers in a list, as a fused convolution has them.

    Raises:
        Refused: It is unknown, or there are more or fewer numbers than it takes.
    """
    require_known(name)
    names = _NUMBERS.get(name, ())
    require(len(numbers) == len(names), f"{name} takes {len(names)} numbers")
    return Activation(name, dict(zip(names, numbers, strict=True)))


def from_names(name: str, written: Mapping[str, object]) -> Activation:
    """With its numbers by name, as a fused Gemm has them (`activation_alpha`).

    Raises:
        Refused: It is unknown, or a number is left out: defaults differ between versions.
    """
    require_known(name)
    numbers: dict[str, float] = {}
    for each in _NUMBERS.get(name, ()):
        found = written.get(f"activation_{each}")
        require(isinstance(found, int | float), f"{each} of {name} is left out")
        assert isinstance(found, int | float), "asked for above"
        numbers[each] = float(found)
    return Activation(name, numbers)
