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
import threading
import time

import blobs
import boardlock
import cache
import catalogue
import channel
import clean
import jobs
import machine
import power
import presence
import results
import workfolder
from failures import JobError

PROTOCOL = 1
_REMEMBERED = 64
_HERE = ("hello", "probe", "clock", "have", "result", "clean")
_WAIT_S = 600.0
_VERBS = _HERE + tuple(v for v in catalogue.MODULES if v not in catalogue.INTERNAL) + ("bye",)


class Server(object):
    """One agent: requests in the order of arrival, one job at a time."""

    def __init__(self):
        # Held by the one thread that says farewell; others wait for the end of the process.
        self._farewell = threading.Lock()
        self._channel = channel.Channel(lambda: self._end(False))
        self._requests = queue.Queue()
        self._answers = collections.OrderedDict()
        self._home = cache.folder()
        if self._home:
            presence.begin(self._home)
        self._folder = workfolder.make(self._home)
        self._runner = jobs.Runner(self._folder)
        self._results = results.Results(self._home)
        self._blobs = blobs.Blobs(self._home) if self._home else None
        self._owner = boardlock.owner()
        self._heard = time.monotonic()

    def serve(self):
        """Answer until `bye` or the end of stdin."""
        power.restore()
        watch = threading.Thread(target=self._read)
        watch.daemon = True
        watch.start()
        going_on = True
        while going_on:
            going_on = self._answer(self._requests.get())
        self._end(True)

    def _read(self):
        last = ""
        for line in channel.lines(sys.stdin.buffer):
            self._heard = time.monotonic()
            if line and not line.startswith('{"beat"'):
                self._requests.put(line)
                last = line
        self._end('"bye"' in last)

    def _watch(self, patience_s):
        """End when the host has been silent for long: a dead network closes no pipe."""

        def wait():
            while time.monotonic() - self._heard < patience_s:
                time.sleep(min(5.0, patience_s))
            self._end(False)

        thread = threading.Thread(target=wait)
        thread.daemon = True
        thread.start()

    def _end(self, asked):
        """Kill what runs; the files of jobs stay where the host did not say goodbye."""
        if not self._farewell.acquire(False):
            threading.Event().wait()
        try:
            self._runner.kill()
            power.restore()
            if asked or not workfolder.is_kept(self._folder, self._home):
                shutil.rmtree(self._folder, ignore_errors=True)
            if self._home:
                presence.end(self._home)
        finally:
            # Whatever failed: an agent that nobody talks to any more must not stay.
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
            with channel.Beats(self._channel):
                self._answers[name] = self._reply(request)
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        self._unless_ending()
        self._channel.send(dict(self._answers[name], id=name))
        return verb != "bye"

    def _unless_ending(self):
        """A job that the farewell killed has no result: it must not be kept as a crash."""
        if self._farewell.locked():
            threading.Event().wait()

    def _reply(self, request):
        verb = request["verb"]
        if verb not in _VERBS:
            text = "this agent has no verb %r" % (verb,)
            return _refused(text, "it knows: " + ", ".join(_VERBS))
        if verb == "bye":
            return {"ok": True}
        try:
            return self._here(request) if verb in _HERE else self._job(request)
        except JobError as error:
            return {"ok": False, "error": error.reply()}

    def _here(self, request):
        """Verbs that need no child: they run nothing of the user's."""
        verb, arguments = request["verb"], request["arguments"]
        if verb in ("hello", "probe"):
            return self._about(verb, arguments, request["deadline_s"])
        if verb == "clock":
            # For a host that reads a meter: how far its clock is from this one.
            return {"ok": True, "monotonic_s": time.monotonic()}
        if verb == "result":
            return self._results.look(str(arguments.get("job")))
        if self._blobs is None:
            raise JobError("bad_request", "this agent has no folder for files: EDGEOPT_CACHE")
        if verb == "have":
            return self._blobs.have(arguments)
        # It reads and writes the disk, and may remove engines: not while anybody measures.
        with boardlock.held(self._home, self._owner, request["wait_s"]):
            return clean.clean(self._home, arguments)

    def _job(self, request):
        """One job in a child: alone on the board where it measures, its result kept in a file."""
        verb, arguments = request["verb"], request["arguments"]
        gone = self._blobs.missing(arguments) if self._blobs else []
        if gone:
            error = JobError("file_missing", "no longer on the device: " + ", ".join(gone))
            return {"ok": False, "error": dict(error.reply("start"), places=gone)}
        with self._results.running(request["id"]):
            if verb in catalogue.MEASURING:
                with boardlock.held(self._home, self._owner, request["wait_s"]):
                    reply = self._runner.run(verb, arguments, request["deadline_s"])
            else:
                reply = self._runner.run(verb, arguments, request["deadline_s"])
            self._unless_ending()
            self._results.keep(request["id"], reply)
        return reply

    def _about(self, verb, arguments, deadline_s):
        """What this device is. The runtime is imported by a child: that alone may crash.

        `hello` may say who asks (user, host), that the runtime is not to be looked at yet
        (runtime: false), and after how long a silence of the host the agent is to end.
        """
        if verb == "hello":
            self._owner = boardlock.owner(arguments.get("user"), arguments.get("host"))
            if arguments.get("patience_s"):
                self._watch(float(arguments["patience_s"]))
            if arguments.get("runtime") is False:
                return {"ok": True, "protocol": PROTOCOL, "python": platform.python_version()}
        found = self._runner.run("runtime", {}, deadline_s)
        runtime = found.get("runtime") or {}
        problem = None if found["ok"] else found["error"]["text"]
        if verb == "probe":
            facts = machine.facts(runtime.get("version"), runtime.get("providers", []))
            if arguments.get("prove") is True and found["ok"]:
                proven = self._runner.run("prove", {}, deadline_s)
                facts["providers_proven"] = proven.get("providers", {})
            return dict(facts, ok=True, runtime_error=problem)
        return {
            "ok": True,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "verbs": list(_VERBS),
            "runtime": found.get("runtime"),
            "runtime_error": problem,
        }


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
    if not isinstance(request.setdefault("arguments", {}), dict):
        raise JobError("bad_request", "arguments is an object")
    for name, otherwise in (("deadline_s", 60.0), ("wait_s", _WAIT_S)):
        given = request.setdefault(name, otherwise)
        if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
            raise JobError("bad_request", name + " is a positive number of seconds")
    return request
