"""`Action` and `Recipe`: what was done to a model, as a text that a person reads and edits.

An action is one move with every parameter resolved. Its text form is one line:

    fold_batchnorm@1 "conv1.out"
    static_qdq@1 "block2" activation="uint8" weight="int8" <- ranges="sha256:..."

What stands behind `<-` are artifacts: digests of what was computed from data (ranges, repaired
weights). They are not part of the action's identity: the same decision on retrained weights has
other artifacts.

A recipe is a header and its actions. The empty recipe is the baseline, byte for byte.
"""

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property

from edgeopt.core import digest as digests
from edgeopt.errors import UsageError

Parameter = str | int | float | bool
FORMAT = 1
_HEAD = re.compile(r"^([a-z][a-z0-9_]*)@(\d+)\s+")
_PAIR = re.compile(r"\s*([a-z_][a-z0-9_]*)=")
_ARROW = re.compile(r"\s*<-")
_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Action:
    """One move of one transform at one site.

    Args:
        transform: Name of the plug-in.
        version: The plug-in's version: a change of its meaning raises it.
        site: Where: a value name of the normalised model, or `*` for the whole model.
        parameters: Sorted by name.
        artifacts: Role to digest, sorted; filled in when the action is applied.
    """

    transform: str
    version: int
    site: str
    parameters: tuple[tuple[str, Parameter], ...] = ()
    artifacts: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(transform: str, site: str, *, version: int = 1, **parameters: Parameter) -> "Action":
        """An action with its parameters as keywords."""
        ordered = tuple(sorted(parameters.items()))
        return Action(transform=transform, version=version, site=site, parameters=ordered)

    def get(self, name: str, default: Parameter | None = None) -> Parameter:
        """A parameter by name.

        Raises:
            KeyError: Not given, and no default.
        """
        found = dict(self.parameters).get(name, default)
        if found is None:
            raise KeyError(name)
        return found

    def artifact(self, role: str) -> str | None:
        """The digest of an artifact, None before the action was applied."""
        return dict(self.artifacts).get(role)

    def with_artifacts(self, **found: str) -> "Action":
        """The same move, naming what was computed from data for it."""
        merged = {**dict(self.artifacts), **found}
        return replace(self, artifacts=tuple(sorted(merged.items())))

    def bare(self) -> "Action":
        """The decision alone, without artifacts: what identity is about."""
        return replace(self, artifacts=())

    @property
    def text(self) -> str:
        """One line that `parse` reads back to an equal action."""
        parts = [f"{self.transform}@{self.version}", _quoted(self.site)]
        parts += [f"{key}={json.dumps(value)}" for key, value in self.parameters]
        if self.artifacts:
            parts.append("<-")
            parts += [f"{key}={json.dumps(value)}" for key, value in self.artifacts]
        return " ".join(parts)

    @staticmethod
    def parse(line: str) -> "Action":
        """The action that a line says.

        Raises:
            UsageError: The line is not an action.
        """
        head = _HEAD.match(line)
        if not head:
            raise _not_an_action(line)
        try:
            site, position = _DECODER.raw_decode(line, head.end())
        except ValueError as error:
            raise _not_an_action(line) from error
        parameters, position = _pairs(line, position)
        artifacts: list[tuple[str, Parameter]] = []
        arrow = _ARROW.match(line, position)
        if arrow:
            artifacts, position = _pairs(line, arrow.end())
        if not isinstance(site, str) or line[position:].strip():
            raise _not_an_action(line)
        return Action(
            transform=head.group(1),
            version=int(head.group(2)),
            site=site,
            parameters=tuple(sorted(parameters)),
            artifacts=tuple(sorted((key, str(value)) for key, value in artifacts)),
        )


def _quoted(text: str) -> str:
    """JSON with readable letters, but no character that any tool takes for the end of a line."""
    return json.dumps(text, ensure_ascii=False).translate(_LINE_ENDS)


def _not_an_action(line: str) -> UsageError:
    return UsageError(
        f"{line!r} is not an action",
        hint='an action reads: transform@version "site" name=value ... [<- role="sha256:..."]',
    )


def _pairs(line: str, position: int) -> tuple[list[tuple[str, Parameter]], int]:
    """All `name=value` from a position on, and where they end."""
    pairs: list[tuple[str, Parameter]] = []
    while found := _PAIR.match(line, position):
        try:
            value, position = _DECODER.raw_decode(line, found.end())
        except ValueError as error:
            raise _not_an_action(line) from error
        if not isinstance(value, str | int | float | bool):
            raise _not_an_action(line)
        pairs.append((found.group(1), value))
    return pairs, position


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Ordered actions, and what they were written for.

    Args:
        baseline: Digest of the model file that the actions start from.
        actions: In the order in which they are applied; empty is the baseline itself.
        opset: Default operator set of the built model; 0 in the empty recipe (as in the file).
        data: Digest of the data set whose statistics the actions use; empty without data.
    """

    baseline: str
    actions: tuple[Action, ...] = ()
    opset: int = 0
    data: str = ""

    def then(self, *actions: Action) -> "Recipe":
        """This recipe with more actions at its end."""
        return replace(self, actions=self.actions + actions)

    @cached_property
    def digest(self) -> str:
        """Identity: baseline and decisions, without artifacts."""
        lines = [self.baseline, self.data, *(action.bare().text for action in self.actions)]
        return digests.of_text("\n".join(lines))

    @property
    def text(self) -> str:
        """The recipe as a file; `parse` reads it back to an equal recipe."""
        head = [f"# edgeopt recipe {FORMAT}", f"baseline {self.baseline}"]
        if self.opset:
            head.append(f"opset {self.opset}")
        if self.data:
            head.append(f"data {self.data}")
        return "\n".join([*head, "", *(action.text for action in self.actions)]) + "\n"

    @staticmethod
    def parse(text: str) -> "Recipe":
        """The recipe that a file says; blank lines and comments are skipped.

        Raises:
            UsageError: Another format version, no baseline, or a line that is not an action.
        """
        lines = [line.strip() for line in text.splitlines()]
        if not lines or not lines[0].startswith("# edgeopt recipe "):
            raise UsageError(
                "this is not a recipe: it must begin with '# edgeopt recipe 1'",
                hint="take one from a study's folder or from an exported model",
            )
        version = lines[0].removeprefix("# edgeopt recipe ").strip()
        if version != str(FORMAT):
            raise UsageError(
                f"the recipe has format {version}, this edgeopt reads {FORMAT}",
                hint="use the edgeopt version that wrote it",
            )
        header: dict[str, str] = {}
        actions: list[Action] = []
        for line in lines[1:]:
            key, _, rest = line.partition(" ")
            if not line or line.startswith("#"):
                continue
            if key in {"baseline", "opset", "data"} and not actions:
                header[key] = rest.strip()
            else:
                actions.append(Action.parse(line))
        if "baseline" not in header:
            raise UsageError(
                "the recipe does not name its baseline", hint="add 'baseline sha256:…'"
            )
        opset = header.get("opset", "0")
        if not opset.isdecimal():
            raise UsageError(f"{opset!r} is no opset", hint="write the line as: opset 21")
        return Recipe(
            baseline=header["baseline"],
            actions=tuple(actions),
            opset=int(opset),
            data=header.get("data", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One decision of the search: a site and its alternatives.

    Args:
        name: Readable and unique in its space, such as `quantize:block2`.
        family: `rewrite`, `fuse`, `prune`, `quantize`, `repair` or `runtime`.
        labels: One word an alternative; the first is what the baseline does.
        alternatives: Actions of each alternative; the first is always empty.
        joint: Whether it pays together with other choices only: starts leave it off.
        mends: Whether it repairs what prune choices do: without it none of them is worth a try.
    """

    name: str
    family: str
    labels: tuple[str, ...]
    alternatives: tuple[tuple[Action, ...], ...]
    joint: bool = False
    mends: bool = False

    def __len__(self) -> int:
        return len(self.alternatives)
