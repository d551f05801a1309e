"""Headless Chromium over its DevTools protocol: what a person presses, and what they see."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from processes import TIMEOUT, until

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="none is on the PATH here")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--remote-debugging-port=0"),
)
CODES = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Backspace": (8, "")}
CTRL, SHIFT = 2, 8


class Page:
    """One tab."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self._browser, self._session = browser, session
        for domain in ("Runtime", "Page", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setFocusEmulationEnabled", enabled=True)
        self.look()

    def send(self, method: str, **about: Any) -> Any:
        """What the browser answers to a command."""
        return self._browser.send(method, self._session, **about)

    def look(self, width: int = 1280, height: int = 900) -> None:
        """Set the size of the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def go(self, address: str) -> None:
        self.send("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        about = {"awaitPromise": True, "returnByValue": True}
        answer = self.send("Runtime.evaluate", expression=script, **about)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true, also over a page that is only loading."""
        about = {"expression": condition, "returnByValue": True}
        # What an expression gives that fails is not true.
        until(lambda: self.send("Runtime.evaluate", **about).get("result", {}).get("value") is True)

    def press(self, *keys: str, modifiers: int = 0, repeat: bool = False) -> None:
        """Press and release keys, by their names or letters, one after the other."""
        for key in keys:
            number, text = CODES.get(key, (ord(key[0].upper()), key))
            about = {"key": key, "windowsVirtualKeyCode": number, "modifiers": modifiers}
            chars = {"text": text} if text and modifiers in (0, SHIFT) else {}
            self.send("Input.dispatchKeyEvent", type="keyDown", autoRepeat=repeat, **about, **chars)
            self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)


class Browser:
    """A browser. `faults` are the errors that the consoles of its tabs show."""

    def __init__(self, address: str) -> None:
        self.faults: list[str] = []
        self._runner, self._number = asyncio.Runner(), 0
        self._runner.run(self._connect(address))

    async def _connect(self, address: str) -> None:
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(address, max_msg_size=0)

    def close(self) -> None:
        self._runner.run(self._http.close())
        self._runner.close()

    def page(self) -> Page:
        """A new window, since those behind others are slow to draw."""
        target = self.send("Target.createTarget", url="about:blank", newWindow=True)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session)

    def send(self, method: str, session: str | None = None, **about: Any) -> Any:
        return self._runner.run(asyncio.wait_for(self._ask(method, session, about), TIMEOUT))

    async def _ask(self, method: str, session: str | None, about: dict[str, Any]) -> Any:
        self._number += 1
        request = {"id": self._number, "method": method, "params": about}
        await self._socket.send_json(request | ({"sessionId": session} if session else {}))
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == self._number:
                return message.get("result", {"exceptionDetails": message.get("error")})
            entry = message.get("params", {}).get("entry", {})
            if message.get("method") == "Runtime.exceptionThrown" or entry.get("level") == "error":
                self.faults.append(json.dumps(message["params"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in this folder."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    port_file = folder / "DevToolsActivePort"
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        try:
            until(lambda: port_file.exists() and len(port_file.read_text().split()) == 2)
            port, path = port_file.read_text().split()
            browser = Browser(f"ws://127.0.0.1:{port}{path}")
            yield browser
            browser.close()
        finally:
            running.terminate()
