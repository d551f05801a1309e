"""An OpenAI-compatible chat endpoint over aiohttp, with pooled connections."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp

from judges.models.openai_format import (
    ENCODINGS,
    LONGEST_EXCERPT,
    MOST_READ,
    Dialect,
    ErrorBodyError,
    most_bytes,
    read_body,
    read_completion,
    read_error,
)
from judges.models.redaction import Redactor, read_key, without_secrets
from judges.protocol import (
    OPENAI,
    Completion,
    FatalModelError,
    Message,
    Sampling,
    TransientError,
    UnreachableError,
)


class EndpointModel:
    """Chat completions at `api_base`, with the key in OPENAI_API_KEY unless given.

    The key goes into the request's header and nowhere else; an answer that repeats it is cleaned.
    One pool of connections for each event loop, opened at the first request and closed by `close`
    on that loop.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        base = (api_base or os.environ.get("OPENAI_BASE_URL") or OPENAI).rstrip("/")
        self.name = name
        self.endpoint = without_secrets(base)
        if urlsplit(base).scheme not in {"http", "https"} or not urlsplit(base).hostname:
            raise FatalModelError(
                f"{name}: {Redactor().redact(self.endpoint)!r} is no address; write "
                "http://HOST:PORT/v1 or https://..."
            )
        self._key = read_key("OPENAI_API_KEY", api_key)
        if self._key and "@" in urlsplit(base).netloc:
            raise FatalModelError(
                f"{name}: the address holds a user and OPENAI_API_KEY is set as well; a request "
                "takes one of the two, so leave the other out"
            )
        self._secrets = Redactor([self._key], url=base)
        if not self._key and base == OPENAI:
            raise FatalModelError(
                f"{name}: OPENAI_API_KEY is not set; set it, or name another endpoint by api_base"
            )
        self._url = chat_url(base)
        self._proxy = _proxy(self._url)
        self._dialect = Dialect.of(name)
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"EndpointModel({self.name!r}, api_base={self.endpoint!r})"

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        body = self._dialect.body(self.name, messages, sampling)
        status, headers, answer = await self._post(body, most_bytes(sampling))
        if 200 <= status < 300:
            try:
                return self._secrets.clean(read_completion(answer, messages, sampling))
            except ErrorBodyError as error:
                status = error.status
        if status == 400:
            self._dialect.learn(body, answer)
        raise self._error(status, headers, answer)

    async def close(self) -> None:
        """Close the connections opened on the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _post(
        self, body: Mapping[str, Any], most: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        data = json.dumps(body).encode()
        try:
            # A redirect would take the documents to a host that nobody named.
            async with self._session().post(
                self._url, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                well = 200 <= response.status < 300
                answer = await read_body(
                    response.content.iter_any(),
                    response.headers.get("Content-Encoding"),
                    most if well else MOST_READ,
                    cut=not well,
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
            what = self._secrets.redact(" ".join(f"{type(error).__name__}: {error}".split()))
            what = what[:LONGEST_EXCERPT]
            raise TransientError(
                f"connection to {self.endpoint} lost ({what})", billed=True
            ) from None

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            headers = {"Content-Type": "application/json", "Accept-Encoding": ENCODINGS}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            session = self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # the runner limits
                headers=headers,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # which knows no limit
            )
        return session

    def _error(self, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
        return read_error(
            status,
            headers.get("Retry-After"),
            body,
            model=self.name,
            endpoint=self.endpoint,
            redacted=self._secrets.redact,
        )


def chat_url(base: str) -> str:
    parts = urlsplit(base)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/chat/completions"))


def _proxy(url: str) -> str | None:
    """Find the proxy the environment names for a URL, once and not at every request."""
    parts = urlsplit(url)
    if not parts.hostname or parts.hostname in {"localhost", "127.0.0.1", "::1"}:
        return None
    return None if proxy_bypass(parts.hostname) else getproxies().get(parts.scheme)
