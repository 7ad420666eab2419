"""The one door to onnxruntime on this machine: run, observe intermediate values, profile.

Threads are always explicit and the runtime never prints. What goes wrong inside comes out as
`RuntimeFailure` with one sentence. Timing that enters a front never comes from here: that is the
device agent's.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
from onnxruntime.capi import onnxruntime_pybind11_state  # pyright: ignore

from edgeopt.core.candidate import RuntimeSettings
from edgeopt.core.data import Feed
from edgeopt.errors import ModelError
from edgeopt.graph.light import light_proto
from edgeopt.graph.read import describe
from edgeopt.graph.write import EXTERNAL_ABOVE_BYTES, serialized

# The runtime has no types: everything of it is Any from here on.
_ort = cast("Any", onnxruntime)
_state = cast("Any", onnxruntime_pybind11_state)  # pyright: ignore[reportUnknownArgumentType]

Array = npt.NDArray[Any]
_LEVELS: Mapping[str, str] = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_ERRORS: tuple[type[Exception], ...] = (
    _state.Fail,
    _state.InvalidArgument,
    _state.NoSuchFile,
    _state.NoModel,
    _state.EngineError,
    _state.RuntimeException,
    _state.InvalidProtobuf,
    _state.ModelLoaded,
    _state.NotImplemented,
    _state.InvalidGraph,
    _state.EPFail,
    RuntimeError,
    ValueError,
)
_NOISE = re.compile(
    r"^\[ONNXRuntimeError\]\s*:\s*\d+\s*:\s*[A-Z_]+\s*:\s*"
    r"|(?:Load model from \S+ failed|Exception during initialization|"
    r"Failed to load model with error):\s*"
    r"|\S*/(?:onnxruntime|onnxruntime_src)/\S+:\d+\s*"
    r"|(?:virtual |static )?[\w:<>,\s*&]+ onnxruntime::[\w:<>~]+\([^)]*\)[^:]*?(?:const )?"
    r"(?= \[|: )",
)


class RuntimeFailure(ModelError):  # noqa: N818 - it becomes a core.Failure of a candidate
    """The runtime refuses to load or to run a model. A candidate's failure, not a defect."""


class Session:
    """One loaded model on this machine.

    Args:
        model: A file (with its external data beside it) or the bytes of a self-contained model.
        settings: Provider, threads and optimization level.
        profile: A folder and prefix for the runtime's own profile; written by `end_profile`.
        weights: Constants that the bytes only name, as `light_proto` takes them out.

    Raises:
        RuntimeFailure: The runtime does not take the model.
    """

    def __init__(
        self,
        model: Path | bytes,
        settings: RuntimeSettings = RuntimeSettings(),  # noqa: B008
        *,
        profile: Path | None = None,
        weights: Mapping[str, Array] | None = None,
    ) -> None:
        options = _options(settings, profile)
        if weights:
            held = [_ort.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
            options.add_external_initializers(list(weights), held)
        source = str(model) if isinstance(model, Path) else model
        providers = [(settings.provider, dict(settings.options))]
        self._where = str(model) if isinstance(model, Path) else ""
        try:
            self._session: Any = _ort.InferenceSession(source, options, providers=providers)
        except _ERRORS as error:
            raise self._failure("the runtime does not load the model", error) from error

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that a feed must have."""
        return tuple(item.name for item in self._session.get_inputs())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, in the model's order."""
        return tuple(item.name for item in self._session.get_outputs())

    def run(self, feed: Feed, outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """One inference; all outputs, or the named ones.

        Raises:
            RuntimeFailure: The feed does not fit, an operator fails, or an optional output holds
                nothing.
        """
        names = list(self.outputs if outputs is None else outputs)
        try:
            found: list[Any] = self._session.run(names, dict(feed))
        except _ERRORS as error:
            raise self._failure("the model does not run", error) from error
        empty = next((name for name, v in zip(names, found, strict=True) if v is None), None)
        if empty is not None:
            raise RuntimeFailure(f"output {empty!r} holds nothing on this feed", where=self._where)
        return dict(zip(names, found, strict=True))

    def end_profile(self) -> Path:
        """Stop profiling and return the file."""
        return Path(self._session.end_profiling())

    def _failure(self, what: str, error: Exception) -> RuntimeFailure:
        return RuntimeFailure(f"{what}: {reason(error)}", where=self._where)


def session_of(
    graph: ir.Model,
    settings: RuntimeSettings = RuntimeSettings(),  # noqa: B008
    *,
    limit_bytes: int = EXTERNAL_ABOVE_BYTES,
) -> Session:
    """A session of a graph of any size.

    Args:
        graph: Unchanged.
        settings: Provider, threads and optimization level.
        limit_bytes: See `light_proto`.

    Raises:
        RuntimeFailure: The runtime does not take the graph.
    """
    model, weights = light_proto(graph, limit_bytes)
    return Session(serialized(model), settings, weights=weights)


def reason(error: Exception) -> str:
    """The first line of a runtime error, without its prefixes and source paths."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    cleaned = " ".join(_NOISE.sub("", text).split()).strip(" :")
    return (cleaned or text)[:400]


def version() -> str:
    """The runtime's version on this machine."""
    return str(_ort.__version__)


def _options(settings: RuntimeSettings, profile: Path | None) -> Any:
    options: Any = _ort.SessionOptions()
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(
        _ort.GraphOptimizationLevel, _LEVELS[settings.optimization]
    )
    spinning = "1" if settings.spinning else "0"
    options.add_session_config_entry("session.intra_op.allow_spinning", spinning)
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    return options


def observe(
    graph: ir.Model,
    names: Iterable[str],
    feeds: Iterable[Feed],
    *,
    settings: RuntimeSettings = RuntimeSettings(optimization="basic"),  # noqa: B008
    limit_bytes: int = EXTERNAL_ABOVE_BYTES,
) -> Iterator[dict[str, Array]]:
    """Values of a graph, feed after feed: only one feed's values are ever in memory.

    Args:
        graph: Unchanged; a serialised copy gets the extra outputs.
        names: Values of the main graph: intermediates, inputs, outputs or initializers.
        feeds: Inputs.
        settings: The level must keep names: `off` or `basic`.
        limit_bytes: See `light_proto`.

    Yields:
        Name to array, in the order of `names`.

    Raises:
        RuntimeFailure: The model does not load or run.
        ModelError: A name that the main graph does not have.
    """
    wanted = list(dict.fromkeys(names))
    model, weights = light_proto(graph, limit_bytes)
    have = {info.name for info in model.graph.output}
    made = {name for node in model.graph.node for name in node.output}
    constants = {t.name: t for t in model.graph.initializer}
    inputs = {info.name for info in model.graph.input}
    unknown = [name for name in wanted if name not in made | constants.keys() | inputs]
    if unknown:
        raise ModelError(
            f"the graph has no value {unknown[0]!r}", hint="names inside subgraphs cannot be seen"
        )
    computed = [name for name in wanted if name in made]
    for name in computed:
        if name not in have:
            model.graph.output.add().name = name
    fixed = {
        name: weights[name] if name in weights else ir.from_proto(constants[name]).numpy()
        for name in wanted
        if name in constants and name not in made
    }
    session = Session(serialized(model), settings, weights=weights)
    for feed in feeds:
        found = session.run(feed, computed) if computed else {}
        yield {
            name: found[name] if name in found else feed.get(name, fixed.get(name))  # pyright: ignore
            for name in wanted
        }


def observed_shapes(graph: ir.Model, feed: Feed) -> dict[str, tuple[int, ...]]:
    """Shapes of every value of the main graph for this feed, as the runtime computes them.

    Values that are no tensors (sequences, optionals) are left out.

    Raises:
        RuntimeFailure: The model does not load or run.
    """
    names = [v.name for node in graph.graph for v in node.outputs if v.name]
    shapes = {name: tuple(array.shape) for name, array in feed.items()}
    for found in observe(graph, names, [feed]):
        shapes |= {name: a.shape for name, a in found.items() if hasattr(a, "shape")}
    for name, value in graph.graph.initializers.items():
        if value.const_value is not None:
            shapes[name] = tuple(int(size) for size in value.const_value.shape.numpy())
    return shapes


def synthetic_feed(graph: ir.Model, *, free: int = 1, seed: int = 0) -> dict[str, Array]:
    """Inputs of the right names, dtypes and shapes where no data is at hand: noise and small ints.

    Free dimensions become `free`. A model may refuse it; whoever calls must expect that.
    """
    generator = np.random.default_rng(seed)
    spec = describe(ir.to_proto(graph), Path(), digest="", size_bytes=0)
    feed: dict[str, Array] = {}
    for item in spec.inputs:
        if item.shape is None:
            continue
        shape = [size if isinstance(size, int) else free for size in item.shape]
        dtype = np.dtype(item.dtype)
        if dtype.kind == "f":
            feed[item.name] = np.asarray(generator.normal(size=shape), dtype)
        else:
            feed[item.name] = np.asarray(generator.integers(0, 2, shape), dtype)
    return feed


def optimized(model: onnx.ModelProto, level: str) -> onnx.ModelProto:
    """The graph that the runtime makes of a model at a level (`basic`, `extended`, `all`).

    Raises:
        RuntimeFailure: The runtime does not load the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options = _options(RuntimeSettings(optimization=level), None)
        options.optimized_model_filepath = str(path)
        data = serialized(model)
        try:
            _ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except _ERRORS as error:
            text = f"the runtime does not load the model: {reason(error)}"
            raise RuntimeFailure(text) from error
        return onnx.ModelProto.FromString(path.read_bytes())


def profile_nodes(
    model: Path, settings: RuntimeSettings, feed: Feed, runs: int = 5
) -> Mapping[str, Any]:
    """What the runtime executed, node by node, in the device agent's form (see `lowered`).

    Times are means over `runs` after one warm-up, and good for shares only.

    Raises:
        RuntimeFailure: The model does not load or run.
    """
    with tempfile.TemporaryDirectory() as folder:
        session = Session(model, settings, profile=Path(folder) / "profile")
        for _ in range(runs + 1):
            session.run(feed)
        events: list[dict[str, Any]] = json.loads(session.end_profile().read_text())
    return {"nodes": _nodes(events, runs)}


def _nodes(events: list[dict[str, Any]], runs: int) -> list[dict[str, Any]]:
    nodes: dict[str, dict[str, Any]] = {}
    times: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
            continue
        facts = event["args"]
        name = event["name"].removesuffix("_kernel_time")
        times.setdefault(name, []).append(event["dur"] * 1e-6)
        nodes.setdefault(
            name,
            {
                "name": name,
                "op": facts["op_name"],
                "domain": facts.get("domain", ""),
                "provider": facts.get("provider", ""),
                "inputs": [next(iter(entry)) for entry in facts.get("input_type_shape", [])],
                "outputs": [next(iter(entry)) for entry in facts.get("output_type_shape", [])],
            },
        )
    return [{**node, "time_s": sum(times[name][-runs:]) / runs} for name, node in nodes.items()]
