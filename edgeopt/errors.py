"""What can go wrong, and how coarsely to catch it.

    EdgeOptError                 70  a defect of ours, unless a subclass says otherwise
    ├── UsageError                2  a flag, a name, a combination that cannot work
    │   ├── ConfigError           2  edgeopt.toml, a device entry, a hardware profile
    │   ├── ModelError            2  the ONNX file cannot be used
    │   └── DataError             2  the data cannot be used, or does not meet the model
    ├── DeviceError               3  a device or its agent cannot be reached or does not answer
    │   ├── MeterError            3  the external power meter: energy is absent, all else stands
    │   └── ConnectionLostError   3  it went away, or is not there: wait for it, or use its twin
    ├── StorageError              3  disk full, read-only folder, damaged store
    ├── InconclusiveError         4  noise or missing evidence: no verdict is possible
    ├── NothingToDoError          5  zero budgets, zero measurements
    └── WrongOutputError          6  a model computes something else than it must

A plug-in that fails on a model is left out with a PluginFaultWarning: one must not end a study.
A candidate that fails is *not* an exception: it is a `core.measurement.Failure` in a trial.
"""


class PluginFaultWarning(UserWarning):
    """A plug-in failed on a model and was left out; everything else went on."""


class EdgeOptError(Exception):
    """An error a person can act on: what happened, where, and what to do next.

    Args:
        what: One sentence: what happened, and why where that is known.
        where: The file, input, node or device it happened at; empty when the sentence says it.
        hint: What to do next.
    """

    exit_code = 70

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  {self.hint}" if self.hint else text


class UsageError(EdgeOptError):
    """The request cannot be carried out as it was given."""

    exit_code = 2


class ConfigError(UsageError):
    """A settings file, a device entry or a hardware profile is wrong."""


class ModelError(UsageError):
    """The model file cannot be read, checked or run."""


class DataError(UsageError):
    """The data cannot be read, or does not meet the model's inputs."""


class DeviceError(EdgeOptError):
    """The device, or the agent on it, does not do its part. Never a verdict on a candidate."""

    exit_code = 3


class MeterError(DeviceError):
    """The external power meter does not do its part: energy is absent, all else stands."""


class ConnectionLostError(DeviceError):
    """The device does not answer (any more): it may come back, and its twin can take over."""


class StorageError(EdgeOptError):
    """A file cannot be written or the store cannot be opened."""

    exit_code = 3


class InconclusiveError(EdgeOptError):
    """The evidence does not decide the question."""

    exit_code = 4


class NothingToDoError(EdgeOptError):
    """The request selects nothing."""

    exit_code = 5


class WrongOutputError(EdgeOptError):
    """A model's outputs differ from what they must be, beyond the tolerance."""

    exit_code = 6
