"""`Candidate`: what could be deployed: a recipe and the settings that the runtime gets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgeopt.core import digest as digests
from edgeopt.core.action import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """How a runtime session is opened on the device.

    Args:
        provider: Execution provider by its runtime name.
        threads: Intra-op threads; always explicit, since 0 means another thing on every board.
        spinning: Whether idle threads spin.
        optimization: `all`, `extended`, `basic` or `off`.
        options: Provider options, and session configuration entries by their full names
            (`session.x64quantprecision`); the agent refuses what the provider does not have.
        affinity: Logical processors that the process may use; empty leaves them as they are.
    """

    provider: str = "CPUExecutionProvider"
    threads: int = 1
    spinning: bool = True
    optimization: str = "all"
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    affinity: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """One readable line, equal for equal settings."""
        words = [self.provider.removesuffix("ExecutionProvider").lower(), f"threads={self.threads}"]
        words += [] if self.spinning else ["spinning=off"]
        words += [] if self.optimization == "all" else [f"optimization={self.optimization}"]
        # Nothing is said of an empty affinity: the keys of candidates that had none stay.
        words += [f"cpus={','.join(map(str, self.affinity))}"] if self.affinity else []
        return " ".join(
            [*words, *(f"{key}={value}" for key, value in sorted(self.options.items()))]
        )


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A recipe under runtime settings: everything that is needed to build and to run it."""

    recipe: Recipe
    runtime: RuntimeSettings = RuntimeSettings()

    @property
    def key(self) -> str:
        """Identity of the candidate: equal keys are never measured twice on one device."""
        return digests.of_text(self.recipe.digest + json.dumps(self.runtime.text))

    @property
    def is_baseline(self) -> bool:
        """Whether this is the user's own file, whatever the settings."""
        return not self.recipe.actions

    @property
    def is_default(self) -> bool:
        """Whether this is the user's own file as a session opens it by default: the baseline."""
        return self.is_baseline and self.runtime.optimization == "all"
