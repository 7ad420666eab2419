"""The loop that takes requests, gives each to a child of its own, and answers.

A reader thread blocks on stdin. When stdin ends (the host closed it, was killed, or the
connection is gone), the running child is killed and the agent ends: no board stays busy for a
host that is not there any more.
"""

import collections
import json
import os
import platform
import queue
import shutil
import signal
import sys
import tempfile
import threading

import catalogue
import channel
import jobs
import machine
from failures import JobError

PROTOCOL = 1
_REMEMBERED = 64
_HERE = ("hello", "probe")
_VERBS = _HERE + tuple(v for v in catalogue.MODULES if v not in catalogue.INTERNAL) + ("bye",)


class Server(object):
    """One agent: requests in the order of arrival, one job at a time."""

    def __init__(self):
        self._channel = channel.Channel()
        self._requests = queue.Queue()
        self._answers = collections.OrderedDict()
        self._folder = _work_folder()
        self._runner = jobs.Runner(self._folder)

    def serve(self):
        """Answer until `bye` or the end of stdin."""
        watch = threading.Thread(target=self._read)
        watch.daemon = True
        watch.start()
        going_on = True
        while going_on:
            going_on = self._answer(self._requests.get())
        self._end()

    def _read(self):
        for line in channel.lines(sys.stdin.buffer):
            if line:
                self._requests.put(line)
        self._end()

    def _end(self):
        self._runner.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        if os.getpgrp() == os.getpid():
            channel.kill_group(0, signal.SIGKILL)
        os._exit(0)

    def _answer(self, line):
        try:
            request = _parse(line)
        except JobError as error:
            self._channel.send({"id": None, "ok": False, "error": error.reply()})
            return True
        name, verb = request["id"], request["verb"]
        if name not in self._answers:
            self._answers[name] = self._reply(request)
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        self._channel.send(dict(self._answers[name], id=name))
        return verb != "bye"

    def _reply(self, request):
        verb = request["verb"]
        if verb not in _VERBS:
            text = "this agent has no verb %r" % (verb,)
            return _refused(text, "it knows: " + ", ".join(_VERBS))
        if verb == "bye":
            return {"ok": True}
        if verb in _HERE:
            return self._about(verb, request["deadline_s"])
        return self._runner.run(verb, request["arguments"], request["deadline_s"])

    def _about(self, verb, deadline_s):
        """What this device is. The runtime is imported by a child: that alone may crash."""
        found = self._runner.run("runtime", {}, deadline_s)
        runtime = found.get("runtime") or {}
        problem = None if found["ok"] else found["error"]["text"]
        if verb == "probe":
            facts = machine.facts(runtime.get("version"), runtime.get("providers", []))
            return dict(facts, ok=True, runtime_error=problem)
        return {
            "ok": True,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "verbs": list(_VERBS),
            "runtime": found.get("runtime"),
            "runtime_error": problem,
        }


_PREFIX = "edgeopt-agent-"


def _work_folder():
    """A new folder for this agent's files; those of agents that were killed are removed."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        pid = name[len(_PREFIX) :].partition("-")[0]
        if name.startswith(_PREFIX) and pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(os.path.join(place, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix="%s%d-" % (_PREFIX, os.getpid()))


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _refused(text, hint):
    return {"ok": False, "error": JobError("bad_request", text, hint).reply()}


def _parse(line):
    """The request of a line: an object with `id`, `verb`, and optionally the rest."""
    try:
        request = json.loads(line)
    except ValueError:
        raise JobError("bad_request", "this line is not JSON: " + line[:80]) from None
    if not isinstance(request, dict) or not all(
        isinstance(request.get(key), str) for key in ("id", "verb")
    ):
        raise JobError("bad_request", "a request is an object with the texts id and verb")
    request.setdefault("arguments", {})
    deadline = request.setdefault("deadline_s", 60.0)
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or deadline <= 0:
        raise JobError("bad_request", "deadline_s is a positive number of seconds")
    return request
