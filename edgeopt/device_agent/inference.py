"""Outputs of samples for accuracy: what goes back to the host is reduced here, on the device."""

import os
import time

import engines
import numpy as np
import sessions
from failures import JobError

_PREFIX = "outputs-"


def infer(job):
    """Outputs of every sample, in an npz with the keys `<sample>/<output name>`.

    Arguments beside model, feeds and settings:
        state: Output to input: an output becomes an input of the next sample, within the samples
            that have the same entry in `groups` (without groups: all).
        groups: One number a sample.
        reduce: Output to what is sent of it, see `reduced`; an output that is not named is sent
            in full.

    The file of the last reply but one is removed: the host fetches each before it asks again.
    The reply's `shapes` has, for outputs of which a decision is sent, each sample's full shape.
    """
    path, settings = os.path.abspath(job.get("model", str)), job.get("settings", dict)
    _forget(job.folder)
    feeds = sessions.read_feeds(job.get("feeds", str))
    state = job.arguments.get("state") or {}
    groups = job.arguments.get("groups") or [0] * len(feeds)
    reduce = job.arguments.get("reduce") or {}
    sessions.import_runtime()
    job.phase("load candidate")
    session, _ = engines.opened(path, settings, feed=feeds[0])
    names = [output.name for output in session.get_outputs()]
    _require(names, state, reduce, groups, feeds)
    job.phase("run candidate")
    arrays, shapes, carried = {}, {}, {}
    for index, feed in enumerate(feeds):
        if index and groups[index] != groups[index - 1]:
            carried = {}
        outputs = dict(zip(names, sessions.run_once(session, dict(feed, **carried))))
        carried = {state[name]: outputs[name] for name in state}
        for name in names:
            what = reduce.get(name, "full")
            if what == "drop":
                continue
            whole = _array(name, outputs[name])
            arrays["%d/%s" % (index, name)] = reduced(whole, what)
            if what not in ("full", "float16"):
                shapes.setdefault(name, []).append(list(whole.shape))
    place = os.path.join(job.folder, "%s%020d.npz" % (_PREFIX, time.time() * 1e6))
    with open(place, "wb") as stream:
        np.savez(stream, **arrays)
    return {
        "outputs": place,
        "samples": len(feeds),
        "shapes": shapes,
        "providers": session.get_providers(),
    }


def reduced(array, what):
    """What is sent of an output.

    Args:
        array: The output of one sample.
        what: `full`; `float16`: floats in half the bytes; `argmax:AXIS`: the largest along an
            axis, -1 where something there is not a number; `above:VALUE`: 1 where a value is
            above it, 0 where not, -1 where it is not a number.

    Raises:
        JobError: `bad_request`, it is none of these or does not fit the output.
    """
    if what == "full":
        return array
    if what == "float16":
        return array.astype(np.float16) if array.dtype.kind == "f" else array
    kind, _, argument = what.partition(":")
    try:
        if kind == "argmax":
            return _argmax(array, int(argument))
        if kind == "above":
            over = (array > float(argument)).astype(np.int8)
            return np.where(_nan(array), np.int8(-1), over)
    except (ValueError, TypeError, IndexError) as error:
        text = "%s of an output %s: %s" % (what, array.shape, error)
        raise JobError("bad_request", text) from error
    raise JobError("bad_request", "this agent cannot reduce an output to %r" % (what,))


def _argmax(array, axis):
    if not -array.ndim <= axis < array.ndim:
        raise IndexError("there is no such axis")
    found = np.argmax(array, axis=axis)
    found = np.where(_nan(array).any(axis=axis), -1, found)
    return found.astype(np.int16 if array.shape[axis] < 2**15 else np.int32)


def _nan(array):
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def _array(name, output):
    """An output as an array that an npz file can hold without pickling."""
    found = np.asarray(output)
    if found.dtype.kind == "O" and all(isinstance(item, str) for item in found.ravel()):
        found = found.astype(str)
    if found.dtype.hasobject:
        raise JobError("run_failed", "the output %s is no tensor" % name, "leave it out")
    return found


def _require(names, state, reduce, groups, feeds):
    # An output that is not sent need not be there: a candidate may have been made without it.
    wanted = {name for name, what in reduce.items() if what != "drop"}
    unknown = sorted((set(state) | wanted) - set(names))
    if unknown:
        text = "the model has no output %s" % unknown[0]
        raise JobError("bad_request", text, "outputs: " + ", ".join(names))
    if len(groups) != len(feeds):
        raise JobError("bad_request", "%d groups for %d samples" % (len(groups), len(feeds)))


def _forget(folder):
    """Remove all outputs of earlier jobs but the latest."""
    mine = sorted(name for name in os.listdir(folder) if name.startswith(_PREFIX))
    for name in mine[:-1]:
        os.remove(os.path.join(folder, name))
