"""A headless Chromium for tests of pages: WebDriver's own protocol by the standard library, nothing to install."""

import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "hide-scrollbars", "disable-dev-shm-usage",
)  # fmt: skip
DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
AVAILABLE = DRIVER is not None and BROWSER is not None


class Browser:
    """One window of a browser."""

    def __init__(self, address: str) -> None:
        self.address = address

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            f"{self.address}{path}", data=data, method=method, headers={"Content-Type": "application/json"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol, such as ``Page.printToPDF``."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def resize(self, width: int, height: int) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def open(self, file: Path, fragment: str = "") -> None:
        self.call("POST", "/url", {"url": "about:blank"})
        self.call("POST", "/url", {"url": file.as_uri() + fragment})
        loaded = ["file:", "complete"]  # what the driver waits for at times comes before the page's script has run
        assert self.settled("return [location.protocol, document.readyState]", loaded) == loaded

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function returns in the page."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_later(self, script: str, *arguments: Any) -> Any:
        """What the body of a function gives to its last argument, which it calls when it is done."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def settled(self, script: str, wanted: Any) -> Any:
        """What the script returns once it is ``wanted``, or after five seconds, whatever it is then."""
        for _ in range(100):
            found = self.run(script)
            if found == wanted:
                break
            time.sleep(0.05)
        return found

    def press(self, *keys: str) -> None:
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def complaints(self) -> list[str]:
        """What the page wrote on the console as a warning or an error, since last asked."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]


@contextmanager
def started() -> Iterator[Browser]:
    """A browser with a profile of its own, ended afterwards."""
    assert DRIVER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert driver.stdout is not None
            port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
            root = Browser(f"http://127.0.0.1:{port}")
            options = {"binary": BROWSER, "args": [*FLAGS, f"user-data-dir={profile}"]}
            capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "WARNING"}}
            session = root.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
            browser = Browser(f"{root.address}/session/{session['sessionId']}")
            try:
                yield browser
            finally:
                browser.call("DELETE", "")
        finally:
            driver.terminate()
            driver.wait(timeout=20)
            if driver.stdout is not None:
                driver.stdout.close()
