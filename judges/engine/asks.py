"""One question to a model, and what came back: the replies, what they hold and what they cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judges.models.protocol import Message, Reply, Sampling


@dataclass(frozen=True, slots=True)
class Ask:
    """Messages, how to draw replies, and the parser that accepts them.

    `accept` returns what a reply holds and raises NoScoreError where it holds nothing; such a
    reply is asked again afresh, with the messages that `restate` makes of these where it is given
    (a single reply drawn at temperature 0 would come out the same). `key` is the caller's own name
    for the ask; nothing here reads it.
    """

    messages: Sequence[Message]
    sampling: Sampling
    accept: Callable[[Reply], object]
    key: str = ""
    restate: Callable[[Sequence[Message]], Sequence[Message]] | None = None

    def messages_of(self, fresh: int) -> Sequence[Message]:
        """What is sent: these messages first, and with the form restated after that."""
        return self.restate(self.messages) if fresh and self.restate else self.messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an ask brought: never an exception for what concerns this ask alone.

    `replies[i]` held `parsed[i]`; replies that held nothing come after them, in the order of
    `failures`. `error` names the failure of an ask with nothing parsed, and is None otherwise.
    `cached`: all came from the journal or from an identical ask, so nothing was paid.
    """

    replies: tuple[Reply, ...]
    parsed: tuple[object, ...]
    failures: tuple[str, ...] = ()
    error: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = False
