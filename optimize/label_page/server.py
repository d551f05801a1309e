"""The label page's server: on this machine only, for those who have its secret address."""

import json
import secrets
import sys
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec

from optimize.label_page.session import Click, RefusedError, Session

PAGE = Path(__file__).with_name("page.html")
# The page's placeholder for the nonce, which is new with every response.
NONCE = "{{nonce}}"
MAX_BODY = 2**20
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}


class Server(ThreadingHTTPServer):
    """Serves one session, with a daemon thread for each connection."""

    request_queue_size = 128  # with the default of 5 the system resets simultaneous connections

    def __init__(self, session: Session, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.session, self.token = session, secrets.token_urlsafe()
        # Other host names are refused, since another page could use them to get in.
        self.hosts = [f"{host}:{self.server_port}" for host in ("127.0.0.1", "localhost")]
        self.address = f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no error if a page was closed before its response."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds for which a connection may be silent
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        annotator = parse_qs(self.path.partition("?")[2]).get("annotator", [""])[0]
        match self._word():
            case "":
                nonce = secrets.token_urlsafe()
                page = PAGE.read_text("utf-8").replace(NONCE, nonce)
                self._answer(200, page.encode(), "text/html; charset=utf-8", nonce)
            case "state" | "review" as word:
                self._ask(word, annotator)
            case _:
                self.send_error(404)

    def do_POST(self) -> None:
        word, length = self._word(), self.headers.get("Content-Length", "")
        if word not in ("label", "undo"):
            return self.send_error(404)
        fits = length.isdecimal() and len(length) < 10 and int(length) <= MAX_BODY
        if self.headers.get_content_type() != "application/json" or not fits:
            self.close_connection = True  # because the body stays unread
            return self._answer(413, {"error": f"send JSON of at most {MAX_BODY:,} bytes"})
        try:
            self._ask(word, msgspec.json.decode(self.rfile.read(int(length)), type=Click))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._answer(400, {"error": f"not a click: {error}"})

    def _ask(self, word: str, of: str | Click) -> None:
        """Respond with the session's state, or with why it refuses."""
        try:
            self._answer(200, getattr(self.server.session, word)(of))
        except RefusedError as error:
            about = {"state": error.state} if error.state else {}
            self._answer(error.status, {"error": str(error), **about})

    def _word(self) -> str | None:
        """The word behind the token in the address; None without the token or from elsewhere."""
        token, _, word = self.path.partition("?")[0][1:].partition("/")
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        owned = host in self.server.hosts and origin in (None, f"http://{host}")
        return (
            word if compare_digest(token.encode(), self.server.token.encode()) and owned else None
        )

    def _answer(
        self, status: int, body: Any, kind: str = "application/json", nonce: str = ""
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response_only(status)
        close = {"Connection": "close"} if self.close_connection else {}
        length = {"Content-Type": kind, "Content-Length": str(len(content))}
        for name, value in {**HEADERS, **length, **close}.items():
            self.send_header(name, value.format(nonce))
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: Any = None, explain: Any = None) -> None:
        """Respond with an empty 404, to strangers as to malformed requests."""
        self.close_connection = True
        self._answer(404, b"", "text/plain")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because addresses contain the token."""
