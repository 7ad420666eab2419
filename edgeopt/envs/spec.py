"""`SharedSpec`: an environment whose spec can be copied without its space.

Gymnasium copies the arguments of an environment deeply whenever it looks at a spec. A space holds
whole graphs, and neither space nor evaluator is changed by being asked: copies share them.
"""

from dataclasses import replace
from typing import Any

from gymnasium.envs.registration import EnvSpec


class SharedArguments(dict[str, Any]):
    """A mapping whose deep copy is a shallow one."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedArguments":
        return SharedArguments(self)


class SharedSpec:
    """Comes before `gymnasium.Env` among the bases."""

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """What Gymnasium made the environment of."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        shared = None if spec is None else SharedArguments(spec.kwargs)
        self._spec = spec if shared is None or spec is None else replace(spec, kwargs=shared)
