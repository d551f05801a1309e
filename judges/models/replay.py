"""Recorded replies: a journal answers, and refuses what is not in it."""

import os
from collections.abc import Sequence
from dataclasses import replace

from judges.models.journal import Journal, describe, request_key
from judges.protocol import (
    SEEDS_APART,
    Completion,
    FatalModelError,
    Message,
    RefusedError,
    Sampling,
)


class ReplayModel:
    """Answers from a journal as the model that was recorded there did, and sends nothing.

    A journal of several models needs `name`, the model to replay.
    """

    native_n = True
    has_logprobs: bool | None = None
    in_process = True

    def __init__(self, path: str | os.PathLike[str], *, name: str | None = None) -> None:
        if not os.path.exists(path):  # noqa: PTH110 - Journal would create it
            raise FatalModelError(f"{path}: no such journal to replay")
        recorded = [who.rsplit(" at ", 1) for who in describe(path).models]
        chosen = [who for who in recorded if name in {None, who[0]}]
        if len(chosen) != 1:
            names = ", ".join(sorted(model for model, _ in recorded)) or "none"
            raise FatalModelError(f"{path}: name one recorded model to replay; it holds {names}")
        self.name, self.endpoint = chosen[0]
        self._journal = Journal(path)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer as recorded; raises RefusedError for what was not asked then."""
        recorded = self._find(messages, sampling)
        if recorded is not None:
            return recorded
        each = [
            self._find(messages, replace(sampling, n=1, seed=sampling.seed + SEEDS_APART * i))
            for i in range(sampling.n)
        ]
        singles = [single for single in each if single is not None]
        if len(singles) < sampling.n:
            raise RefusedError(f"{self._journal.path} holds no reply to this prompt and sampling")
        return Completion(
            replies=tuple(single.replies[0] for single in singles),
            tokens_in=sum(single.tokens_in for single in singles),
            tokens_out=sum(single.tokens_out for single in singles),
            model=singles[0].model,
        )

    async def close(self) -> None:
        """Keep the journal open: another runner may use this model."""

    def _find(self, messages: Sequence[Message], sampling: Sampling) -> Completion | None:
        return self._journal.get(request_key(self.endpoint, self.name, messages, sampling))
