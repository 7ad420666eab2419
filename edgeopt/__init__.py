"""edgeopt: measured Pareto fronts of deployable ONNX models, per device.

Nothing heavy is imported here: `edgeopt --help` must answer at once. The Python entry point is
`edgeopt.run(...)`, loaded on first use from `edgeopt.api.run`.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "run"]

if TYPE_CHECKING:
    from edgeopt.api.run import run


def __getattr__(name: str) -> Any:
    """Load `edgeopt.run` lazily (PEP 562), so that importing edgeopt costs nothing."""
    if name == "run":
        from edgeopt.api.run import run

        return run
    raise AttributeError(f"module 'edgeopt' has no attribute {name!r}")
