"""The cable between host and board: a TCP forwarder that counts, cuts and stalls."""

import contextlib
import socket
import struct
import threading

_CHUNK = 1 << 16


class Wire:
    """Forwards connections of a free loopback port to another port.

    Args:
        port: Where the board listens.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._plugged = threading.Event()
        self._plugged.set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._cut_at = 0
        self.sent = 0
        self.received = 0
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def carried(self) -> int:
        """Bytes carried so far, both ways."""
        with self._lock:
            return self.sent + self.received

    def cut(self) -> None:
        """Reset every connection; new ones are accepted."""
        with self._lock:
            connections, self._open = self._open, set()
        for each in connections:
            _reset(each)

    def cut_after(self, count: int) -> None:
        """Reset every connection once so many further bytes were carried; 0 disarms."""
        with self._lock:
            self._cut_at = self.sent + self.received + count if count else 0

    @property
    def armed(self) -> bool:
        """Whether a cut is still to come."""
        return self._cut_at > 0

    def unplug(self) -> None:
        """Reset every connection and refuse new ones."""
        self._plugged.clear()
        self.cut()

    def plug(self) -> None:
        """Accept connections again."""
        self._plugged.set()

    def stall(self) -> None:
        """Carry nothing, and tell nobody: a cable pulled out, a Wi-Fi out of reach."""
        self._flowing.clear()

    def flow(self) -> None:
        """Carry again."""
        self._flowing.set()

    def close(self) -> None:
        """Take the forwarder away."""
        self._plugged.clear()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._flowing.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._plugged.is_set():
                _reset(near)
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                _reset(near)
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
                self.connections += 1
            for source, sink, up in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._carry, args=(source, sink, up), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._flowing.wait()
                if self._count(len(data), up):
                    self.cut()
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
            return
        with self._lock:
            self._open -= {source, sink}
        for each in (source, sink):
            _reset(each)

    def _count(self, size: int, up: bool) -> bool:
        """Whether this is the moment to cut."""
        with self._lock:
            if up:
                self.sent += size
            else:
                self.received += size
            due = 0 < self._cut_at <= self.sent + self.received
            if due:
                self._cut_at = 0
            return due


def _reset(connection: socket.socket) -> None:
    """Close without a farewell: the other side sees a reset."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
