"""The label page's server: on this machine alone, and for those alone who have its address."""

import json
import secrets
import sys
from functools import cached_property
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from optimize.labelling.session import RefusedError, Session

PAGE = Path(__file__).with_name("page.html")
# What stands in the page where its script and style name the nonce of an answer.
NONCE = "{{nonce}}"
MAX_BODY = 2**20
# Seconds for which a connection may be silent.
PATIENCE = 20
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class Server(ThreadingHTTPServer):
    """Serves one session until it is shut down; a thread a connection, which nobody waits for."""

    daemon_threads = True

    def __init__(self, session: Session) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.session, self.token = session, secrets.token_urlsafe()

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """What a browser may call this server: another name is another page's trick."""
        return tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))

    @property
    def address(self) -> str:
        return f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a page that was closed before its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if (word := self._word()) is None:
            return self._nothing()
        session = self.server.session
        query = parse_qs(urlsplit(self.path).query)
        annotator = query.get("annotator", [""])[0]
        if word == "":
            nonce = secrets.token_urlsafe()
            page = PAGE.read_text("utf-8").replace(NONCE, nonce).encode()
            self._answer(200, page, "text/html; charset=utf-8", POLICY.format(nonce))
        elif word in ("state", "review"):
            self._json(200, getattr(session, word)(annotator))
        else:
            self._nothing()
        return None

    def do_POST(self) -> None:
        word = self._word()
        if word not in ("label", "undo"):
            return self._nothing()
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json" or not length.isdecimal():
            return self._refuse(415, "send JSON, with its length")
        if int(length) > MAX_BODY:
            return self._refuse(413, f"send at most {MAX_BODY:,} bytes")
        try:
            given = json.loads(self.rfile.read(int(length)))
            if word == "undo":
                state = self.server.session.undo(given["annotator"])
            else:
                state = self.server.session.label(**given)
        except RefusedError as error:
            about = {"error": str(error)} | ({"state": error.state} if error.state else {})
            return self._json(error.status, about)
        except (ValueError, TypeError, KeyError, RecursionError):
            return self._refuse(400, "send an object with annotator, item, value and before")
        return self._json(200, state)

    def _word(self) -> str | None:
        """What an address names behind the token; None for a stranger's request."""
        token, _, word = urlsplit(self.path).path.removeprefix("/").partition("/")
        origin = self.headers.get("Origin")
        hosts = self.server.hosts
        own = self.headers.get("Host") in hosts and (
            origin is None or origin.removeprefix("http://") in hosts
        )
        known = compare_digest(token.encode(), self.server.token.encode())
        return word if known and own else None

    def _nothing(self) -> None:
        self.close_connection = True
        self._answer(404, b"")

    def _refuse(self, status: int, why: str) -> None:
        # What was sent may be unread.
        self.close_connection = True
        self._json(status, {"error": why})

    def _json(self, status: int, content: Any) -> None:
        self._answer(status, json.dumps(content).encode(), "application/json")

    def _answer(
        self, status: int, body: bytes, kind: str = "text/plain", policy: str = "default-src 'none'"
    ) -> None:
        self.send_response_only(status)
        about = {"Content-Type": kind, "Content-Length": len(body), **HEADERS}
        about |= {"Content-Security-Policy": policy}
        about |= {"Connection": "close"} if self.close_connection else {}
        for name, value in about.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library refuses gets nothing, too."""
        self._nothing()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses hold the token."""
