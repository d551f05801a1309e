"""Azure's deployments, through the official openai package, which knows its addresses and keys."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from judges.models.openai_format import (
    ENCODINGS,
    MOST_BYTES,
    Dialect,
    ErrorBodyError,
    read_body,
    read_completion,
    read_error,
)
from judges.models.redaction import Redactor, read_key, without_secrets
from judges.protocol import (
    Completion,
    FatalModelError,
    Message,
    Sampling,
    TransientError,
    UnreachableError,
)

if TYPE_CHECKING:
    import httpx
    from openai import AsyncAzureOpenAI

VERSION = "2024-10-21"


class AzureModel:
    """A deployment at `api_base` or AZURE_OPENAI_ENDPOINT, with the key in AZURE_OPENAI_API_KEY.

    OPENAI_API_VERSION chooses the version of the interface.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(
        self, deployment: str, *, api_base: str | None = None, timeout: float = 120.0
    ) -> None:
        base = api_base or os.environ.get("AZURE_OPENAI_ENDPOINT", "")
        self._key = read_key("AZURE_OPENAI_API_KEY")
        if not base or not self._key:
            missing = "AZURE_OPENAI_API_KEY" if base else "api_base or AZURE_OPENAI_ENDPOINT"
            raise FatalModelError(f"azure/{deployment}: {missing} is not set")
        self.name = deployment
        self.endpoint = without_secrets(base.rstrip("/"))
        self._base = base
        self._secrets = Redactor([self._key], url=base)
        self._timeout = timeout
        self._dialect = Dialect.of(deployment)
        self._client: AsyncAzureOpenAI | None = None

    def __repr__(self) -> str:
        return f"AzureModel({self.name!r}, api_base={self.endpoint!r})"

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        import openai

        body = self._dialect.body(self.name, messages, sampling)
        try:
            client = self._opened()
            answer = await client.chat.completions.with_raw_response.create(**body)
            content, wait = answer.content, answer.headers.get("retry-after")
            return self._secrets.clean(read_completion(content, messages, sampling))
        except ErrorBodyError as error:
            status = error.status
        except openai.APIStatusError as error:
            status, content = error.status_code, error.response.content
            wait = error.response.headers.get("retry-after")
        except openai.APITimeoutError:
            raise TransientError(f"no answer from {self.endpoint}", billed=True) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, TransientError):
                raise error.__cause__ from None
            raise UnreachableError(f"no connection to {self.endpoint}") from None
        if status == 400:
            self._dialect.learn(body, content)
        raise read_error(
            status,
            wait,
            content,
            model=self.name,
            endpoint=self.endpoint,
            redacted=self._secrets.redact,
            key_name="AZURE_OPENAI_API_KEY",
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> "AsyncAzureOpenAI":
        from openai import AsyncAzureOpenAI, DefaultAsyncHttpxClient

        if self._client is None:
            self._client = AsyncAzureOpenAI(
                azure_endpoint=self._base,
                azure_deployment=self.name,
                api_key=self._key,
                api_version=os.environ.get("OPENAI_API_VERSION", VERSION),
                timeout=self._timeout,
                max_retries=0,
                # A redirect would take the documents to a host that nobody named.
                http_client=DefaultAsyncHttpxClient(
                    follow_redirects=False,
                    headers={"Accept-Encoding": ENCODINGS},
                    event_hooks={"response": [_read_bounded]},
                ),
            )
        return self._client


async def _read_bounded(response: "httpx.Response") -> None:
    """Read a body before the library does, which knows no limit."""
    encoding = response.headers.get("Content-Encoding")
    response._content = await read_body(response.aiter_raw(), encoding, MOST_BYTES)
