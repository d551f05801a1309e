"""A chat-completions endpoint over aiohttp, with pooled connections and bounded answers."""

import asyncio
import http.client
import json
import os
import threading
import zlib
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp

from judges.client.dialect import Dialect, is_reasoning
from judges.client.keys import Redactor, holds_secret, read_key, without_secrets
from judges.client.openai_format import (
    LONGEST_EXCERPT,
    ErrorBodyError,
    read_completion,
    read_error,
    read_rate_limits,
    retry_after_of,
)
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RespelledError,
    Sampling,
    TransientError,
    UnreachableError,
)
from judges.client.providers import PROVIDERS, Provider

# How an answer may be packed: what can be unpacked a piece at a time.
ENCODINGS = "gzip, deflate"
MAX_ANSWER_BYTES = 32 * 2**20
LEAST_ANSWER_BYTES = 2 * 2**20
BYTES_PER_TOKEN = 256  # with its own JSON around it
MAX_ERROR_BYTES = 100_000
SERVED_TIMEOUT = 2.0  # seconds that a server near by gets to list its models
MALFORMED = (ValueError, LookupError, TypeError, AttributeError)
# Of what local servers say of a model: the times and numbers beside these differ at each request.
SERVED = ("id", "root", "meta", "max_model_len", "owned_by")


class EndpointModel:
    """Chat completions at `api_base`, with the provider's key in the environment unless given.

    The key goes into the request's header and nowhere else; an answer that repeats it is cleaned.
    One pool of connections for each event loop, opened at the first request and closed by `close`
    on that loop.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(
        self,
        name: str,
        provider: Provider = PROVIDERS["openai"],
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        base = provider.base(api_base)
        if not base:
            raise FatalModelError(
                f"{name}: no address is given; set {provider.address_variable}, or name it by "
                "api_base (--api-base)"
            )
        self.name = name
        self.endpoint = without_secrets(base)
        if urlsplit(base).scheme not in {"http", "https"} or not urlsplit(base).hostname:
            raise FatalModelError(
                f"{name}: {Redactor().redact(self.endpoint)!r} is no address; write "
                "http://HOST:PORT/v1 or https://..."
            )
        if holds_secret(base):
            raise FatalModelError(
                f"{name}: the address {self.endpoint} holds a password or a key; give the key by "
                f"{provider.key_variable}"
            )
        key = read_key(provider.key_variable, api_key)
        if not key and base == provider.address:
            raise FatalModelError(
                f"{name}: {provider.key_variable} is not set; set it, or name another endpoint by "
                "api_base (--api-base)"
            )
        if not key and not provider.address:
            raise FatalModelError(f"{name}: {provider.key_variable} is not set")
        self.secrets = Redactor([key])
        self.dialect = Dialect.of(name)
        self.key_variable = provider.key_variable
        self._url = chat_url(base, name, provider)
        self._proxy = _proxy(self._url)
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": ENCODINGS}
        if key:
            self._headers[provider.key_header] = provider.key_form.format(key=key)
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"EndpointModel({self.name!r}, api_base={self.endpoint!r})"

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        body = self.dialect.body(self.name, messages, sampling)
        status, headers, answer = await self._post(body, max_answer_bytes(sampling))
        if 200 <= status < 300:
            try:
                completion = self.secrets.clean(
                    read_completion(answer, messages, sampling, thinks=is_reasoning(self.name))
                )
            except ErrorBodyError as error:
                status = error.status
            else:
                if self.dialect.notes:
                    self.dialect.say(self.name)
                limits = read_rate_limits(headers)
                return replace(completion, rate_limits=limits) if limits else completion
        if status in {400, 422} and self.dialect.learn(body, answer):
            raise RespelledError(f"{self.name} wants the request spelled otherwise")
        failure = self.read_error(status, retry_after_of(headers), answer)
        failure.rate_limits = read_rate_limits(headers)
        raise failure

    def served(self) -> str | None:
        """What a server near by says it serves under the model's name, as a digest; "" elsewhere.

        There any name may stand for another model after each start. None where it cannot be asked.
        """
        if not _is_near(urlsplit(self._url).hostname or ""):
            return ""
        answers: list[str | None] = [None]
        # In a thread of its own: the library's timeout is of each piece, and pieces may drip.
        thread = threading.Thread(target=lambda: answers.append(self._ask_served()), daemon=True)
        thread.start()
        thread.join(SERVED_TIMEOUT)
        return answers[-1]

    def _ask_served(self) -> str | None:
        """The digest of what the server lists; "" where it lists nothing, None where it fails."""
        parts = urlsplit(self._url)
        path = parts.path.removesuffix("/chat/completions") + "/models"
        secure = parts.scheme == "https"
        connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        try:
            with closing(connect(parts.netloc, timeout=SERVED_TIMEOUT)) as connection:
                connection.request("GET", path, headers=self._headers)
                response = connection.getresponse()
                if response.status in {404, 405}:
                    return ""
                entries = json.loads(response.read(MAX_ERROR_BYTES))["data"]
                own = [entry for entry in entries if entry["id"] == self.name] or entries
                facts = [[str(entry.get(name)) for name in SERVED] for entry in own]
        except (OSError, http.client.HTTPException, RecursionError, *MALFORMED):
            return None
        return sha256(json.dumps(facts).encode()).hexdigest()

    async def close(self) -> None:
        """Close the connections opened on the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def read_error(self, status: int, retry_after: str | None, answer: bytes) -> ModelError:
        """What an error answer of this endpoint means, without any key."""
        return read_error(
            status,
            retry_after,
            answer,
            model=self.name,
            endpoint=self.endpoint,
            redacted=self.secrets.redact,
            key_name=self.key_variable,
        )

    async def _post(
        self, body: Mapping[str, Any], max_bytes: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        data = json.dumps(body).encode()
        try:
            # A redirect would take the documents to a host that nobody named.
            async with self._session().post(
                self._url, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                succeeded = 200 <= response.status < 300
                answer = await read_body(
                    response.content.iter_any(),
                    response.headers.get("Content-Encoding"),
                    max_bytes if succeeded else MAX_ERROR_BYTES,
                    cut=not succeeded,
                )
                return response.status, response.headers, answer
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(f"no connection to {self.endpoint}: {error.os_error}") from None
        except (TimeoutError, aiohttp.ServerTimeoutError):
            seconds = self._timeout.total
            raise TransientError(
                f"no answer from {self.endpoint} within {seconds:g} s", billed=True
            ) from None
        except aiohttp.ClientError as error:
            # The library quotes what it could not read, over several lines.
            reason = self.secrets.redact(" ".join(f"{type(error).__name__}: {error}".split()))
            raise TransientError(
                f"connection to {self.endpoint} lost ({reason[:LONGEST_EXCERPT]})", billed=True
            ) from None

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # the runner limits
                headers=self._headers,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # which knows no limit
            )
        return session


def _is_near(host: str) -> bool:
    """Whether a host is this machine or one of the same network."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".internal"))


def chat_url(base: str, name: str = "", provider: Provider = PROVIDERS["openai"]) -> str:
    """Where requests go; a query of the address stays behind the path."""
    parts = urlsplit(base)
    path = parts.path.rstrip("/") + provider.path.format(name=quote(name, safe=""))
    query = parts.query
    if provider.version:
        version = os.environ.get(provider.version_variable, provider.version)
        query = "&".join(filter(None, (query, urlencode({"api-version": version}))))
    return urlunsplit(parts._replace(path=path, query=query))


def _proxy(url: str) -> str | None:
    """Find the proxy the environment names for a URL, once and not at every request."""
    parts = urlsplit(url)
    if not parts.hostname or parts.hostname in {"localhost", "127.0.0.1", "::1"}:
        return None
    return None if proxy_bypass(parts.hostname) else getproxies().get(parts.scheme)


def max_answer_bytes(sampling: Sampling) -> int:
    """How long an answer may be: far longer than replies of `max_tokens` and their alternatives."""
    tokens = sampling.n * sampling.max_tokens * (1 + sampling.top_logprobs)
    return min(LEAST_ANSWER_BYTES + BYTES_PER_TOKEN * tokens, MAX_ANSWER_BYTES)


async def read_body(
    chunks: AsyncIterable[bytes], encoding: str | None, max_bytes: int, *, cut: bool = False
) -> bytes:
    """Read and unpack a body as it comes, and no more of it than `max_bytes`, packed or not.

    Raises TransientError where it is longer (unless it is to be `cut`), or cannot be unpacked.
    """
    unpack = _unpacker((encoding or "").strip().lower())
    body = bytearray()
    n_received = 0
    async for chunk in chunks:
        # Empty blocks, and what follows a packed body's end, unpack to nothing for ever.
        n_received += len(chunk)
        try:
            body += unpack(chunk, max_bytes + 1 - len(body))
        except zlib.error as error:
            raise TransientError(
                f"malformed answer (not {encoding}: {error})", billed=True
            ) from None
        if max(len(body), n_received) > max_bytes:
            if cut:
                return bytes(body[:max_bytes])
            raise TransientError(f"an answer of more than {max_bytes:,} bytes", billed=True)
    return bytes(body)


def _unpacker(encoding: str) -> Callable[[bytes, int], bytes]:
    """What takes a packed piece and the most bytes wanted of it."""
    if encoding in {"", "identity"}:
        return lambda chunk, max_bytes: chunk[:max_bytes]
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        raise TransientError(
            f"malformed answer (packed as {encoding[:200]!r}, unasked)", billed=True
        )
    inflate: Any = None

    def unpack(chunk: bytes, max_bytes: int) -> bytes:
        nonlocal inflate
        if inflate is None:
            # Some call deflate what lacks zlib's header, whose first byte ends on 8.
            headless = encoding == "deflate" and chunk[:1] and chunk[0] & 15 != 8
            inflate = zlib.decompressobj(-zlib.MAX_WBITS if headless else zlib.MAX_WBITS | 32)
        unpacked: bytes = inflate.decompress(chunk, max_bytes)
        return unpacked

    return unpack
