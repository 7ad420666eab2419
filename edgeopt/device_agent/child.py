"""The child: takes one job from stdin, does it, answers on stdout, ends."""

import importlib
import json
import os
import signal
import sys
import threading
import traceback

import catalogue
import channel
from failures import JobError


class Job(object):
    """What a verb sees of its job.

    Args:
        arguments: As the host sent them.
        folder: Where files for the host go.
        send: Writes one message to the agent.
    """

    def __init__(self, arguments, folder, send):
        self.arguments = arguments
        self.folder = folder
        self._send = send
        self.current = "start"

    def phase(self, name):
        """Say what comes next, so that a crash can be told from another."""
        self.current = name
        self._send({"phase": name})

    def get(self, name, kind):
        """A required argument of a type.

        Raises:
            JobError: `bad_request`, it is missing or of another type.
        """
        value = self.arguments.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise JobError("bad_request", "the argument %s is missing or of a wrong type" % name)
        return value


def run():
    """Do one job. The first in line when memory runs out, and gone when its agent is gone."""
    channel.die_with_parent()
    answers = channel.Channel()
    _volunteer_for_oom()
    line = sys.stdin.buffer.readline().decode("utf-8")
    if not line:
        return
    _watch_stdin()
    request = json.loads(line)
    job = Job(request["arguments"], request["folder"], answers.send)
    answers.send(_result(request["verb"], job))
    sys.stderr.flush()
    # Not a plain return: a runtime whose threads hang at exit must not cost the result.
    os._exit(0)


def _result(verb, job):
    try:
        job.phase("import")
        return dict(_function(verb)(job), ok=True)
    except JobError as error:
        return {"ok": False, "error": error.reply(job.current)}
    except MemoryError:
        error = JobError("oom", "not enough memory", "free memory, or a smaller model")
        return {"ok": False, "error": error.reply(job.current)}
    except Exception:
        # The one boundary that turns what a model makes the runtime do into a result.
        text = "".join(traceback.format_exc().splitlines(True)[-6:])
        return {"ok": False, "error": JobError("crash", text).reply(job.current)}


def _function(verb):
    try:
        module = importlib.import_module(catalogue.MODULES[verb])
    except ImportError as error:
        text = "the agent's Python lacks what it needs: %s" % error
        raise JobError("runtime_missing", text, "install numpy and onnxruntime") from error
    return getattr(module, verb)


def _watch_stdin():
    def wait():
        sys.stdin.buffer.read()
        channel.kill_group(0, signal.SIGKILL)

    thread = threading.Thread(target=wait)
    thread.daemon = True
    thread.start()


def _volunteer_for_oom():
    try:
        with open("/proc/self/oom_score_adj", "w") as stream:
            stream.write("1000")
    except (IOError, OSError):
        pass
