"""A headless Chromium, driven over its debugging protocol: what a page shows, says and asks for."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chromium-headless-shell")
PATIENCE = 60.0
"""Seconds for an answer of the browser."""
OPENED = (
    "Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd,"
    " ...performance.getEntriesByType('paint').map(each => each.startTime))"
)
"""Milliseconds."""


def installed() -> str | None:
    """Path of a browser; None: there is none here."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Seen:
    """What one page did."""

    requests: list[str] = field(default_factory=list)
    """Addresses asked for, the page itself left out."""
    messages: list[str] = field(default_factory=list)
    """Console messages, errors and violated policies."""
    width: int = 0
    """CSS pixels that the content takes; more than the window's means scrolling sideways."""
    picture: bytes = b""
    """PNG of the whole page."""
    opened: float = 0.0
    """Seconds until it was loaded and something of it painted."""


class Browser:
    """One browser process, as a context manager."""

    def __enter__(self) -> Browser:
        self._home = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [
                str(installed()),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--remote-debugging-port=0",
                f"--user-data-dir={self._home.name}",
                "about:blank",
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stderr is not None
        line = next(line for line in self._process.stderr if "DevTools listening on" in line)
        self._socket = connect(line.split(" on ")[1].strip(), max_size=None, open_timeout=PATIENCE)
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.kill()
        self._process.communicate()
        self._home.cleanup()

    def show(self, page: Path | str, width: int = 1280, dark: bool = False) -> Seen:
        """Open a file or an address in a window of that width and let it settle."""
        address = page if isinstance(page, str) else page.resolve().as_uri()
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime", "Audits"):
            self._ask(f"{domain}.enable", session)
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._ask("Emulation.setDeviceMetricsOverride", session, **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", session, features=[scheme])
        self._events.clear()
        self._ask("Page.navigate", session, url=address)
        self._wait_for("Page.loadEventFired")
        settle = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))"
        self._ask("Runtime.evaluate", session, expression=settle, awaitPromise=True)
        found = self._ask("Runtime.evaluate", session, expression="document.documentElement.scrollWidth")
        opened = self._ask("Runtime.evaluate", session, expression=OPENED)
        picture = self._ask("Page.captureScreenshot", session, captureBeyondViewport=True)["data"]
        seen = Seen(width=found["result"]["value"], picture=base64.b64decode(picture))
        seen.opened = opened["result"]["value"] / 1000.0
        for event in self._events:
            _note(seen, event, address)
        self._ask("Target.closeTarget", targetId=target)
        return seen

    def _ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._events.append(answer)

    def _wait_for(self, method: str) -> None:
        while not any(event.get("method") == method for event in self._events):
            self._events.append(json.loads(self._socket.recv(timeout=PATIENCE)))


def _note(seen: Seen, event: dict[str, Any], own: str) -> None:
    method, params = event.get("method"), event.get("params", {})
    if method == "Network.requestWillBeSent" and params["request"]["url"] != own:
        seen.requests.append(params["request"]["url"])
    elif method == "Log.entryAdded":
        seen.messages.append(params["entry"]["text"])
    elif method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Audits.issueAdded"):
        seen.messages.append(json.dumps(params))
