"""The HTTP server of the label page, which listens only on this machine, at a secret address."""

import json
import secrets
import sys
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from urllib.parse import parse_qs

import msgspec

from dspy_judges.errors import JudgesError
from optimize.label_page.label_log import ClickError
from optimize.label_page.session import Click, LabelSession

PAGE_FILE = Path(__file__).with_name("page.html")
# Stands in page.html for the nonce of the content security policy, which is new in each response.
NONCE_PLACEHOLDER = "{{nonce}}"
MAX_BODY_BYTES = 2**20
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}


class LabelServer(ThreadingHTTPServer):
    """The server of one labelling session's page, with a daemon thread for each connection.

    `token` is the secret part of the page's address, and `hosts` has the accepted values of a
    request's header Host.
    """

    request_queue_size = 128  # with the default of 5, simultaneous connections are reset

    def __init__(self, session: LabelSession, port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            problem = f"--port {port} cannot be used ({error})"
            raise JudgesError(f"{problem}; name another port, or leave out --port") from None
        self.session, self.token = session, secrets.token_urlsafe()
        # Other host names are refused, because a hostile page's host name could resolve to this
        # machine.
        self.hosts = [f"{host}:{self.server_port}" for host in ("127.0.0.1", "localhost")]
        self.address = f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        """Print the error, unless it says that the page was closed before the response came."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    protocol_version = "HTTP/1.1"
    timeout = 5  # seconds after which a connection without data is closed
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        annotator = parse_qs(self.path.partition("?")[2]).get("annotator", [""])[0]
        match self._requested_action():
            case "":
                nonce = secrets.token_urlsafe()
                page = PAGE_FILE.read_text("utf-8").replace(NONCE_PLACEHOLDER, nonce)
                self._respond(200, page.encode(), "text/html; charset=utf-8", nonce)
            case "state" | "review" as action:
                self._call_session(action, annotator)
            case _:
                self.send_error(404)

    def do_POST(self) -> None:
        action, length = self._requested_action(), self.headers.get("Content-Length", "")
        if action not in ("label", "undo"):
            return self.send_error(404)
        has_valid_length = length.isdecimal() and len(length) < 10 and int(length) <= MAX_BODY_BYTES
        if self.headers.get_content_type() != "application/json" or not has_valid_length:
            self.close_connection = True  # because the request's body was not read
            problem = f"send JSON of at most {MAX_BODY_BYTES:,} bytes"
            return self._respond_json(413, {"error": problem})
        try:
            click = msgspec.json.decode(self.rfile.read(int(length)), type=Click)
            self._call_session(action, click)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._respond_json(400, {"error": f"the request is not a click on the page: {error}"})

    def _call_session(self, action: str, click_or_name: str | Click) -> None:
        """Call the session's method called `action`, and respond with its result or its error."""
        try:
            self._respond_json(200, getattr(self.server.session, action)(click_or_name))
        except ClickError as error:
            self._respond_json(error.status, {"error": str(error)})

    def _requested_action(self) -> str | None:
        """Return the action in the request's address; None for a wrong token or another site."""
        token, _, action = self.path.partition("?")[0][1:].partition("/")
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        is_same_origin = host in self.server.hosts and origin in (None, f"http://{host}")
        has_valid_token = compare_digest(token.encode(), self.server.token.encode())
        return action if has_valid_token and is_same_origin else None

    def _respond_json(self, status: int, value: object) -> None:
        self._respond(status, json.dumps(value).encode(), "application/json")

    def _respond(self, status: int, body: bytes, content_type: str, nonce: str = "") -> None:
        self.send_response_only(status)
        headers = {"Content-Type": content_type, "Content-Length": str(len(body))}
        if self.close_connection:
            headers["Connection"] = "close"
        for name, header in {**SECURITY_HEADERS, **headers}.items():
            self.send_header(name, header.format(nonce))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: object = None, explain: object = None) -> None:
        """Answer every bad request with an empty 404, so that the sender learns nothing."""
        self.close_connection = True
        self._respond(404, b"", "text/plain")

    def log_message(self, format: str, *args: object) -> None:
        """Log no request, because its address contains the token."""
