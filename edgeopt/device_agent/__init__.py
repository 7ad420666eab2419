"""The agent: the program that runs on the device. Python 3.6, numpy, onnxruntime, nothing else.

It never imports edgeopt and edgeopt never imports it: `edgeopt.targets.bundle` packs these files
into one zipapp, named by its digest, in which they import each other by plain names. It speaks
JSON lines over stdin and stdout:

    {"id": "7", "verb": "bench", "deadline_s": 120, "arguments": {...}}
    {"id": "7", "ok": true, ...}
    {"id": "7", "ok": false, "error": {"code", "text", "hint", "phase"}}

While a request is worked on, `{"beat": 1}`, `{"beat": 2}`, ... come every five seconds; the host
may send such lines too (see `patience_s`). `wait_s` beside `deadline_s` says how long a measuring
job waits for others on the same board.

Codes: `bad_request` (a defect of the caller), `provider_missing` and `runtime_missing` (the device
cannot do what was asked), and the results of a candidate: `load_failed`, `run_failed`, `crash`,
`oom`, `timeout`; of the device: `board_busy`, `file_missing` (with `places`), `disk_full`,
`cache_failed`. `phase` says what the job was doing: `import`, `load candidate`, `run baseline`.

hello      user, host, runtime (false: do not look), patience_s: protocol, python, verbs, runtime,
           runtime_error
probe      facts of the machine and their fingerprint
clock      monotonic_s: the device's CLOCK_MONOTONIC, for a host that reads a meter
footprint  model, feeds, settings: size_bytes, load_s, first_run_s, peak_memory_bytes
bench      candidate, baseline, feeds, settings, baseline_settings, first, warmup, pairs,
           min_seconds, min_runs, together, needs_bytes, engine: alternating blocks with raw
           times, and of each side load_s, first_run_s and how many sessions were opened before
pace       as bench, with rate_hz and periods in place of min_*: windows at a rate, with times
           from the start of a period, missed periods, cpu_s
idle       at_most_s, window_s, busy_share, below_c: waits until the machine is as asked; idle,
           waited_s, busy_share, load, gpu_busy, temperature_c
energy     model, feeds, settings, warmup, sensors, window_s, idle_s, blocks, rate_hz, ...: raw
           power readings with the windows of the runs; sensor null and a reason without one
profile    model, feeds, settings, runs: nodes as the runtime built them, with times; `inputs`
           and `outputs` are element types, empty where an old runtime does not say them
infer      model, feeds, settings, state, groups: outputs, the path of an npz
have       key, files, blobs: the place of a file, or which of its parts are missing (see blobs.py)
result     job: state (done, running, unknown) and the reply of a job of an earlier connection
clean      days, everything: removes what no session uses (see clean.py); freed_bytes, free_bytes
bye        ends the agent

A verb is one line in `catalogue.MODULES` and a function; a sensor one file in the folder `sensors`.
"""
