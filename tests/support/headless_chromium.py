"""A page in headless Chromium, spoken to over its DevTools protocol."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
PATIENCE = 60.0


class Page:
    """One tab; `events` holds every event of the protocol so far."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        number = self._number
        await self._socket.send_json({"id": number, "method": method, "params": params})
        while True:
            told = await self._receive()
            if told.get("id") == number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result

    async def value(self, script: str) -> Any:
        """What a script evaluates to."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def open(self, url: str, width: int, height: int, *, dark: bool = False) -> None:
        """Load a page at a size, from scratch, and wait until all of it is there."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        await self.call("Page.navigate", url=url)
        while not self.named("Page.loadEventFired"):
            await self._receive()

    def named(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event["method"] == method]

    async def _receive(self) -> dict[str, Any]:
        told: dict[str, Any] = await self._socket.receive_json(timeout=PATIENCE)
        if "method" in told:
            self.events.append(told)
        return told


@contextlib.asynccontextmanager
async def opened(profile: Path) -> AsyncIterator[Page]:
    """Start a browser with a fresh profile, and end it whatever happens."""
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
            address = tabs[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


async def _port(file: Path, process: "subprocess.Popen[bytes]") -> int:
    for _ in range(int(PATIENCE / 0.1)):
        assert process.poll() is None, f"the browser ended with {process.returncode}"
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        await asyncio.sleep(0.1)
    raise TimeoutError("the browser did not start")


# What stands out of the window, apart from what scrolls in a frame of its own.
OVERFLOW = """
[document.documentElement.scrollWidth - document.documentElement.clientWidth,
 [...document.querySelectorAll("body *")].filter(one =>
   !one.closest(".wide") && !one.closest("svg") &&
   one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
 ).map(one => one.outerHTML.slice(0, 80)).slice(0, 5)]
"""
OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"


async def look(page: Page, path: Path, width: int, height: int, *, dark: bool) -> dict[str, Any]:
    """What a browser finds on a report at one size, with all of it unfolded."""
    await page.open(path.as_uri(), width, height, dark=dark)
    await page.value(OPEN_ALL)
    return {
        "overflow": await page.value(OVERFLOW),
        "requests": [
            url
            for sent in page.named("Network.requestWillBeSent")
            if not (url := sent["request"]["url"]).startswith("data:") and url != path.as_uri()
        ],
        "complaints": [
            *page.named("Log.entryAdded"),
            *page.named("Runtime.consoleAPICalled"),
            *page.named("Runtime.exceptionThrown"),
        ],
    }
