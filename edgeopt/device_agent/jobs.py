"""One child process a job: started, watched, killed at its deadline, and its end explained."""

import json
import os
import signal
import subprocess
import sys
import threading

import channel
from failures import JobError

_TERM_GRACE_S = 2.0
_TEXT = 2000


class Runner(object):
    """Runs jobs one after the other, each in a fresh process in a session of its own.

    Args:
        folder: Where jobs may leave files; the agent deletes it when it ends.
    """

    def __init__(self, folder):
        self._folder = folder
        self._child = None

    def kill(self):
        """Kill the running child, if any, with everything that it started."""
        child = self._child
        if child is not None and child.poll() is None:
            channel.kill_group(child.pid, signal.SIGKILL)

    def run(self, verb, arguments, deadline_s):
        """The reply of one job; how the child ends is part of the reply."""
        log_path = os.path.join(self._folder, "job.log")
        killed_before = _oom_kills()
        with open(log_path, "wb") as log:
            child = subprocess.Popen(
                [sys.executable, sys.argv[0], "--job"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._child = child
        deadline = _Deadline(child, deadline_s)
        deadline.start()
        job = {"verb": verb, "arguments": arguments, "folder": self._folder}
        phase, reply = _talk(child, job)
        child.wait()
        deadline.stop()
        channel.kill_group(child.pid, signal.SIGKILL)
        self._child = None
        if reply is not None:
            return reply
        if deadline.passed:
            text = "the job was stopped after %g s" % deadline_s
            return _failed(JobError("timeout", text, "give it more time, or a faster model"), phase)
        error = _explain(child.returncode, _oom_kills() > killed_before, _tail(log_path))
        return _failed(error, phase)


class _Deadline(threading.Thread):
    """Ends a child at its deadline: TERM to its group, then KILL."""

    def __init__(self, child, deadline_s):
        threading.Thread.__init__(self)
        self.daemon = True
        self._child = child
        self._deadline_s = deadline_s
        self._done = threading.Event()
        self.passed = False

    def run(self):
        if self._done.wait(self._deadline_s):
            return
        self.passed = True
        channel.kill_group(self._child.pid, signal.SIGTERM)
        if not self._done.wait(_TERM_GRACE_S):
            channel.kill_group(self._child.pid, signal.SIGKILL)

    def stop(self):
        self._done.set()


def _talk(child, job):
    """Send the job; the last phase that the child reported, and its reply if one came.

    The child's stdin stays open while it works: its end tells the child that the agent is gone.
    """
    phase, reply = "start", None
    try:
        child.stdin.write((json.dumps(job) + "\n").encode("utf-8"))
        child.stdin.flush()
    except BrokenPipeError:
        return phase, reply
    for line in channel.lines(child.stdout):
        try:
            message = json.loads(line)
        except ValueError:
            continue  # Printed by something that ran before the child's stdout was its own.
        if "phase" in message:
            phase = message["phase"]
        else:
            reply = message
            break
    child.stdin.close()
    child.stdout.close()
    return phase, reply


def _failed(error, phase):
    return {"ok": False, "error": error.reply(phase)}


def _explain(code, oom, log):
    """Why a child ended without a reply."""
    if code == -signal.SIGKILL and oom:
        return JobError(
            "oom", "the system killed the job: out of memory", "free memory, or a smaller model"
        )
    if code is not None and code < 0:
        text = "the job was ended by signal %d (%s)" % (-code, signal.Signals(-code).name)
    else:
        text = "the job ended with exit code %s and without an answer" % code
    return JobError("crash", text + (": " + log if log else ""), "the runtime's log is in the text")


def _oom_kills():
    """How often this kernel killed something for memory since it started; 0 where unreadable."""
    try:
        with open("/proc/vmstat") as stream:
            for line in stream:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (IOError, OSError):
        pass
    return 0


def _tail(path):
    """The end of a log, as one line of text."""
    with open(path, "rb") as stream:
        stream.seek(max(0, os.path.getsize(path) - _TEXT))
        text = stream.read().decode("utf-8", "replace")
    return " ".join(text.split())
