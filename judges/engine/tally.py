"""What an ask has brought so far, sample by sample."""

from judges.engine.asks import Answer, Ask
from judges.judgement import NoScoreError
from judges.models.protocol import Completion, Reply, Sampling


def withheld(completion: Completion, sampling: Sampling) -> str | None:
    """Why nothing at all was written, where asking again would bring the same; None otherwise."""
    reasons = {reply.finish_reason for reply in completion.replies}
    if any(reply.text.strip() for reply in completion.replies):
        return None
    if reasons == {"content_filter"}:
        return "the endpoint's content filter withheld the reply"
    if reasons == {"length"}:
        return f"no text within max_tokens={sampling.max_tokens}; a reasoning model needs more"
    return None


class Tally:
    """Files replies under the place of their sample until all have parsed."""

    __slots__ = (
        "ask",
        "cached",
        "errors",
        "failures",
        "parsed",
        "tokens_in",
        "tokens_out",
        "unparsed",
    )

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.parsed: dict[int, tuple[Reply, object]] = {}
        self.unparsed: dict[int, tuple[Reply, str]] = {}
        self.errors: list[str] = []
        self.tokens_in = 0
        self.tokens_out = 0
        self.cached = True

    @property
    def missing(self) -> list[int]:
        return [i for i in range(self.ask.sampling.n) if i not in self.parsed]

    @property
    def why(self) -> str:
        """The last reason why a reply could not be read."""
        return next(reversed([why for _, why in self.unparsed.values()]), "too few replies came")

    def count(self, completion: Completion, cached: bool) -> None:
        self.tokens_in += completion.tokens_in
        self.tokens_out += completion.tokens_out
        self.cached = self.cached and cached

    def file(self, place: int, reply: Reply) -> None:
        try:
            if not reply.text.strip():
                ended = "" if reply.finish_reason == "stop" else f" ({reply.finish_reason})"
                raise NoScoreError(f"empty reply{ended}")
            self.parsed[place] = (reply, self.ask.accept(reply))
            self.unparsed.pop(place, None)
        except NoScoreError as error:
            self.unparsed[place] = (reply, str(error))

    def answer(self) -> Answer:
        good = [self.parsed[i] for i in sorted(self.parsed)]
        bad = [self.unparsed[i] for i in sorted(self.unparsed)]
        failures = (*(why for _, why in bad), *self.errors)
        return Answer(
            replies=(*(reply for reply, _ in good), *(reply for reply, _ in bad)),
            parsed=tuple(value for _, value in good),
            failures=failures,
            error=None if good else (*self.errors, *failures, "no reply")[0],
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cached=self.cached and bool(good or bad),
        )
