"""The label page's server: nothing for strangers, and nobody waits for anybody."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from files import read_jsonl
from label_sessions import MARKUP, N, session_in

from optimize.label_page.server import LabelServer

CLICK = {"annotator": "Anna", "item": 0, "value": 4, "comment": "", "before": None}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabelServer]:
    session = session_in(tmp_path)
    with LabelServer(session) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
        session.label_log.close()


def ask(
    server: LabelServer, method: str, word: str, body: Any = None, token: str = "", **headers: str
) -> tuple[int, str, Any]:
    """Status, body and headers; `body` is sent as JSON, or as it is where it is bytes."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    types = {"Content-Type": "application/json"} if body is not None else {}
    types |= {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(connection):
        connection.request(method, f"/{token or server.token}/{word}", content, types)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers


RULES = """
    default-src 'none'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none';
    form-action 'none'
"""
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def test_each_page_runs_only_its_own_script(server):
    nonces = set()
    for _ in range(2):
        status, page, headers = ask(server, "GET", "")
        policy = headers["Content-Security-Policy"]
        (nonce,) = set(re.findall(r"'nonce-([^']+)'", policy))
        nonces.add(nonce)
        assert {*re.findall(r'<(?:script|style)[^>]*?(?: nonce="(.*?)")?>', page)} == {nonce}
        assert "alert(" not in page
        assert {*map(str.strip, RULES.split(";"))} <= {*map(str.strip, policy.split(";"))}
        assert (status, {name: headers[name] for name in HEADERS}) == (200, HEADERS)
    assert len(nonces) == 2


def test_labels_can_be_given_and_withdrawn_and_markup_travels_as_json(server):
    def request(method: str, word: str, body: Any = None, name: str = "127.0.0.1") -> Any:
        host = f"{name}:{server.server_port}"
        origin = {"Origin": f"http://{host}"} if body else {}
        status, text, headers = ask(server, method, word, body, Host=host, **origin)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        return json.loads(text)

    (summary,) = request("GET", "state")["item"]["judged"]
    assert summary["text"].startswith(f"{MARKUP} summary ")
    click = {**CLICK, "comment": "Fine: ü."}
    # A repeated click is the same.
    assert request("POST", "label", click) == request("POST", "label", click, "localhost")
    state = request("GET", "state?annotator=Anna")
    assert (state["done"], state["item"]["item"]) == (1, 1)
    undone = request("POST", "undo", {"annotator": "Anna"})["item"]["undone"]
    assert undone == {"value": 4, "comment": "Fine: ü."}
    assert [row["rating"] for row in read_jsonl(server.session.path)] == [4, None]
    assert request("GET", "review?annotator=Anna") == {"items": []}


@pytest.mark.parametrize(
    ("method", "word", "headers"),
    [
        *(("GET", "", {"token": "x"}), ("GET", "state", {"token": "%00"})),
        *(("GET", "state", {"Host": host}) for host in ("evil.example", "127.0.0.1")),
        ("GET", "state", {"Origin": "http://evil.example"}),
        ("POST", "label", {"Origin": "null"}),
        ("POST", "label", {"Host": "evil.example:80"}),
        ("POST", "label", {"token": "x"}),
        *(("POST", "state", {}), ("GET", "label", {}), ("GET", "../state", {})),
        *((method, "label", {}) for method in ("PUT", "OPTIONS", "TRACE")),
    ],
)
def test_other_requests_get_an_empty_404(server, method, word, headers):
    body = CLICK if method == "POST" else None
    status, text, head = ask(server, method, word, body, **headers)
    assert (status, text) == (404, "")
    assert not {"Server", "Access-Control-Allow-Origin"} & {*head}
    assert server.session.path.read_bytes() == b""


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (CLICK, {"Content_Type": "text/plain"}, 413),
        (b"x" * (2**20 + 1), {}, 413),
        *((b"", {"Content_Length": length}, 413) for length in ("-1", "9" * 5000)),
        *((body, {}, 400) for body in (b"{", b"[" * 100_000)),
        (b'{"annotator": "A", "comment": "\\ud800"}', {}, 400),
        *(({**CLICK, "value": value}, {}, 400) for value in (4.5, True, 6, "pass")),
        *(({**CLICK, "item": item}, {}, 400) for item in (N, -1)),
        *(({**CLICK, "annotator": name}, {}, 400) for name in ("  ", "n/a", "x" * 81, "a\x07b")),
        *(({**CLICK, **more}, {}, 400) for more in ({"after": "me"}, {"other": 1})),
    ],
)
def test_an_invalid_label_request_is_refused_with_a_sentence(server, body, headers, expected):
    try:
        status, text, _ = ask(server, "POST", "label", body, **headers)
    except ConnectionError:  # it may be closed while too much is sent
        assert expected == 413
    else:
        assert (status, [*json.loads(text)]) == (expected, ["error"])
    assert server.session.path.read_bytes() == b""


def test_silent_or_half_open_connections_do_not_block_others(server):
    head = f"POST /{server.token}/label HTTP/1.1\r\nHost: {server.hosts[0]}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with ExitStack() as connections:
        for number in range(20):
            peer = socket.create_connection(("127.0.0.1", server.server_port))
            connections.enter_context(peer).sendall(head.encode() if number % 2 else b"")
        assert ask(server, "POST", "label", CLICK)[0] == 200
        server.shutdown()
        server.server_close()  # which waits for none of them


def test_the_server_prints_nothing_about_requests(server, capfd):
    ask(server, "GET", "state")
    ask(server, "GET", "", token="x")
    for nonsense in (b"\x16\x03\x01 nonsense\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port)) as peer:
            peer.sendall(nonsense)
            peer.recv(100)
    assert capfd.readouterr() == ("", "")
