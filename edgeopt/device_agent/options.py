"""What each provider may be told: names and kinds of its options, and session configuration.

The runtime takes session configuration that it does not know without a word, and some providers
do so with options, so a misspelt setting would be measured as if it were one. Names are those of
the runtime's documentation (onnxruntime.ai/docs/execution-providers) and of its header
onnxruntime_session_options_config_keys.h. What the agent decides itself is refused too.
"""

import mmap
import os

from failures import JobError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"

_FLAG = ("0", "1", "True", "False", "true", "false")
_CAPITAL = ("True", "False", "true", "false")
_NUMBER = "a number"
_TEXT = "a text"

_CUDA = {
    "device_id": _NUMBER,
    "gpu_mem_limit": _NUMBER,
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "do_copy_in_default_stream": _FLAG,
    "cudnn_conv_use_max_workspace": _FLAG,
    "cudnn_conv1d_pad_to_nc1d": _FLAG,
    "enable_cuda_graph": _FLAG,
    "enable_skip_layer_norm_strict_mode": _FLAG,
    "prefer_nhwc": _FLAG,
    "use_tf32": _FLAG,
    "fuse_conv_bias": _FLAG,
    "sdpa_kernel": _NUMBER,
}
_TENSORRT = {
    "device_id": _NUMBER,
    "trt_max_workspace_size": _NUMBER,
    "trt_max_partition_iterations": _NUMBER,
    "trt_min_subgraph_size": _NUMBER,
    "trt_fp16_enable": _CAPITAL,
    "trt_bf16_enable": _CAPITAL,
    "trt_int8_enable": _CAPITAL,
    "trt_int8_use_native_calibration_table": _CAPITAL,
    "trt_dla_enable": _CAPITAL,
    "trt_dla_core": _NUMBER,
    "trt_build_heuristics_enable": _CAPITAL,
    "trt_builder_optimization_level": _NUMBER,
    "trt_sparsity_enable": _CAPITAL,
    "trt_auxiliary_streams": _NUMBER,
    "trt_layer_norm_fp32_fallback": _CAPITAL,
    "trt_context_memory_sharing_enable": _CAPITAL,
    "trt_cuda_graph_enable": _CAPITAL,
    "trt_force_sequential_engine_build": _CAPITAL,
    "trt_tactic_sources": _TEXT,
    "trt_op_types_to_exclude": _TEXT,
    "trt_profile_min_shapes": _TEXT,
    "trt_profile_max_shapes": _TEXT,
    "trt_profile_opt_shapes": _TEXT,
}
_OPENVINO = {
    "device_type": _TEXT,
    "precision": ("FP32", "FP16", "ACCURACY"),
    "num_streams": _NUMBER,
    "model_priority": ("LOW", "MEDIUM", "HIGH", "DEFAULT"),
    "disable_dynamic_shapes": _CAPITAL,
    "enable_opencl_throttling": _CAPITAL,
    "enable_qdq_optimizer": _CAPITAL,
    "enable_causallm": _CAPITAL,
    "reshape_input": _TEXT,
    "layout": _TEXT,
}
PROVIDERS = {CPU: {}, CUDA: _CUDA, TENSORRT: _TENSORRT, OPENVINO: _OPENVINO}
_DECIDED = {
    "trt_engine_cache_enable": "engines are kept in the agent's folder",
    "trt_engine_cache_path": "engines are kept in the agent's folder",
    "trt_engine_cache_prefix": "engines are kept in the agent's folder",
    "trt_timing_cache_enable": "the timing cache is kept beside the engine",
    "trt_timing_cache_path": "the timing cache is kept beside the engine",
    "cache_dir": "engines are kept in the agent's folder",
    "num_of_threads": "the session's threads are set by `threads`",
    "session.intra_op.allow_spinning": "it is set by `spinning`",
    "session.intra_op_thread_affinities": "processors are set by `affinity`",
    "session.disable_cpu_ep_fallback": "the placement is judged from the profile",
    "session.use_ort_model_bytes_directly": "models are given as files",
    "ep.context_enable": "engines are kept in the agent's folder",
}
SESSION = {
    "session.disable_prepacking": _FLAG,
    "session.use_env_allocators": _FLAG,
    "session.set_denormal_as_zero": _FLAG,
    "session.disable_quant_qdq": _FLAG,
    "session.disable_double_qdq_remover": _FLAG,
    "session.enable_quant_qdq_cleanup": _FLAG,
    "session.qdqisint8allowed": _FLAG,
    "session.x64quantprecision": _FLAG,
    "session.use_device_allocator_for_initializers": _FLAG,
    "session.dynamic_block_base": _NUMBER,
    "session.force_spinning_stop": _FLAG,
    "session.intra_op.spin_duration_us": _NUMBER,
    "session.qdq_matmulnbits_accuracy_level": _NUMBER,
    "optimization.enable_gelu_approximation": _FLAG,
    "optimization.disable_specified_optimizers": _TEXT,
    "mlas.enable_gemm_fastmath_arm64_bfloat16": _FLAG,
}
_PREFIXES = ("session.", "optimization.", "mlas.", "ep.")


def split(runtime, provider, options):
    """Options of the provider, and session configuration, both checked.

    Args:
        runtime: The runtime's module.
        provider: By its runtime name.
        options: Name to text.

    Raises:
        JobError: `bad_option`, one is unknown to the provider or to this runtime, is decided by
            the agent, or has a value that cannot be.
    """
    own, entries = {}, {}
    for name, value in sorted(options.items()):
        if not isinstance(value, str):
            raise _refused(name, "values are texts, and this is %r" % (value,))
        if name in _DECIDED:
            raise _refused(name, _DECIDED[name])
        if name.startswith(_PREFIXES):
            _check(name, value, SESSION, "session configuration")
            if not _knows(runtime, name):
                raise _refused(name, "onnxruntime %s does not know it" % runtime.__version__)
            entries[name] = value
        else:
            _check(name, value, PROVIDERS.get(provider, {}), provider)
            own[name] = value
    return own, entries


def _check(name, value, known, whose):
    if name not in known:
        offered = ", ".join(sorted(known)) or "it has none that may be set"
        raise _refused(name, "%s has no such option" % whose, "it knows: " + offered)
    kind = known[name]
    if kind == _NUMBER and not value.lstrip("-").isdigit():
        raise _refused(name, "it takes a number, not %r" % value)
    if isinstance(kind, tuple) and value not in kind:
        raise _refused(name, "it takes one of %s, not %r" % (", ".join(kind), value))


def _knows(runtime, name):
    """Whether the name stands in the runtime's own code: there is no way to ask it."""
    folder = os.path.join(os.path.dirname(runtime.__file__), "capi")
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if ".so" not in file and not file.endswith((".dylib", ".pyd", ".dll")):
            continue
        if "onnxruntime" not in file:
            continue
        with open(os.path.join(folder, file), "rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            found = data.find(name.encode("utf-8")) >= 0
            data.close()
        if found:
            return True
    return False


def _refused(name, why, hint=""):
    return JobError(
        "bad_option",
        "the option %s cannot be used: %s" % (name, why),
        hint or "leave it out, or correct it in the device's entry or profile",
    )
