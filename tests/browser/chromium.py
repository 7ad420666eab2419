"""Chromium without a window, driven over a pipe by the DevTools protocol. No package needed.

The protocol's messages are JSON, each ended by a zero byte, on file descriptors 3 and 4.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MISSING = f"no browser found: none of {', '.join(NAMES)} (Debian: apt-get install chromium)"
_FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"),
    *("--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"),
    *("--disable-extensions", "--disable-sync", "--hide-scrollbars", "--lang=en"),
    # Whatever asks for a name is refused, so that nothing can reach a network unseen.
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_PATIENCE_S = 240.0


def find() -> str | None:
    """The path of a browser; None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Browser:
    """A running browser. `events` holds what it told by itself, in order."""

    process: subprocess.Popen[bytes]
    into: int
    out: int
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _held: bytes = b""
    _number: int = 0

    @classmethod
    def start(cls, path: str, folder: Path) -> "Browser":
        """Start one with an empty profile in a folder."""
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        # Above 10, so that putting them onto 3 and 4 overwrites none of them.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]

        def hand_over() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        process = subprocess.Popen(
            [path, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=hand_over,
            start_new_session=True,
        )
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)
        return cls(process=process, into=ours_in, out=ours_out)

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol.

        Raises:
            AssertionError: The browser refused it, or did not answer in time.
        """
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.into, json.dumps(message).encode() + b"\0")
        number, end = self._number, time.monotonic() + _PATIENCE_S
        while True:
            told = self._next(end)
            if told.get("id") == number:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]
            self.events.append(told)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self.out], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self.out, 1 << 20)
            assert more, "the browser has ended"
            self._held += more
        first, _, self._held = self._held.partition(b"\0")
        return json.loads(first)

    def close(self) -> None:
        """End it, by its own command or by its process."""
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for fd in (self.into, self.out):
            os.close(fd)


@dataclass
class Tab:
    """One page in a browser."""

    browser: Browser
    session: str

    @classmethod
    def open(cls, browser: Browser, *, scripts: bool = True) -> "Tab":
        """An empty page that reports requests and the console, offline."""
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = cls(browser=browser, session=attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        offline = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        tab.call("Network.emulateNetworkConditions", offline=True, **offline)
        if not scripts:
            tab.call("Emulation.setScriptExecutionDisabled", value=True)
        tab.resize(1280, 900)
        return tab

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command for this page."""
        return self.browser.call(method, self.session, **parameters)

    def resize(self, width: int, height: int) -> None:
        """The window's size in CSS pixels."""
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **shape)

    def load(self, path: Path) -> None:
        """A file; returns when it has loaded."""
        self.call("Page.navigate", url=path.as_uri())
        self.until(lambda: self.told("Page.loadEventFired"), "the page does not load")

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript; promises are awaited.

        Raises:
            AssertionError: It threw.
        """
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, holds: Callable[[], object], otherwise: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + _PATIENCE_S
        while not holds():
            assert time.monotonic() < end, otherwise
            time.sleep(0.05)
            self.run("0")

    def told(self, method: str) -> list[Mapping[str, Any]]:
        """Parameters of all events of a kind so far."""
        mine = [e for e in self.browser.events if e.get("sessionId") == self.session]
        return [event["params"] for event in mine if event.get("method") == method]

    def key(self, name: str, text: str = "") -> None:
        """Press and release a key."""
        told = {"key": name, "code": name, "windowsVirtualKeyCode": _KEYS.get(name, 0)}
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **told, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """The left button from one place to another."""
        button = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **button)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=to_x, y=to_y, **button)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=to_y, **button)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A screenshot as PNG."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


_KEYS = {
    "Tab": 9, "Enter": 13, "Escape": 27, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
