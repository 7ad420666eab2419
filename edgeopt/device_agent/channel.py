"""JSON lines on a stdout that nothing else can write to, and the watch on stdin.

Runtimes print to file descriptor 1 whenever they like. The real stdout is duplicated at the
start, and descriptor 1 then leads to stderr.
"""

import ctypes
import json
import os
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1


class Channel(object):
    """The one way to answer: whole lines, from any thread.

    Args:
        gone: Called, and not to return, when nobody reads any more; None ends the process.
    """

    def __init__(self, gone=None):
        self._gone = gone
        sys.stdout.flush()
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, message):
        """Write one message as one line. A reader that is gone ends the process."""
        line = json.dumps(message, ensure_ascii=True)
        with self._lock:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
                return
            except BrokenPipeError:
                if self._gone is None:
                    os._exit(0)
        self._gone()


class Beats(object):
    """Signs of life while a job runs: `{"beat": 1}`, `{"beat": 2}`, ...

    Args:
        channel: Where they go.
        every_s: Pause between two.
    """

    def __init__(self, channel, every_s=5.0):
        self._channel = channel
        self._every_s = every_s
        self._done = threading.Event()

    def __enter__(self):
        thread = threading.Thread(target=self._run)
        thread.daemon = True
        thread.start()
        return self

    def __exit__(self, *reason):
        self._done.set()

    def _run(self):
        number = 0
        while not self._done.wait(self._every_s):
            number += 1
            self._channel.send({"beat": number})


def lines(stream):
    """The lines of a binary stream as text, until it ends."""
    while True:
        line = stream.readline()
        if not line:
            return
        yield line.decode("utf-8", "replace").strip()


def die_with_parent():
    """Let the kernel kill this process when its parent dies (Linux; elsewhere stdin tells)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def kill_group(pid, sign):
    """Signal a process and all that it started; one that is gone already is no error."""
    try:
        os.killpg(pid, sign)
    except (ProcessLookupError, PermissionError):
        pass
