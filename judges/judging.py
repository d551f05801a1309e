"""Judge rows of texts with a client, which sends what the judge asks; find the rows' texts."""

from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dspy_judges.column_names import name_key
from dspy_judges.errors import JudgesError
from judges.dimension import Comparison, Subject
from judges.exchange import Exchange, failed_judgement, readable_texts
from judges.judgement import AnyJudgement, NoScoreError
from judges.prompt import restated
from judges.protocol import Reply
from judges.scoring import NoProbabilitiesError, Sample

if TYPE_CHECKING:
    from judges.client import Client, Request

# Names in label files for the text that both sides of a pair answer, and for the two sides.
SHARED = ("prompt", "document", "post", "query")
CANDIDATES = ("response", "output")


class MissingColumnError(JudgesError, ValueError):
    """A table has no column for a text that the judge reads."""


def find_columns(
    subject: Subject, available: Collection[str], mapping: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The column of each text that a judge of the subject reads.

    It is the column that `mapping` names, else the one of the text's own name. Texts of a pair may
    have the names of labelled pairs, too (`prompt`, `response_a`, ...). Raises MissingColumnError.
    """
    mapping = mapping or {}
    columns = {
        name: _find_column(
            [mapping[name]] if name in mapping else [name, *_synonyms(subject, name)], available
        )
        for name in subject.texts
    }
    if missing := [name for name, column in columns.items() if column is None]:
        names = " or ".join(repr(mapping.get(name, name)) for name in missing)
        flags = " ".join(f"--map {name}=COLUMN" for name in missing)
        raise MissingColumnError(
            f"no column {names}, which the judge {subject.name!r} reads; columns: "
            f"{', '.join(sorted(available)) or 'none'}. Name yours, as in {flags} "
            f"or, in Python, map={dict.fromkeys(missing, 'COLUMN')}"
        )
    return {name: column for name, column in columns.items() if column is not None}


def _find_column(names: Sequence[str], available: Collection[str]) -> str | None:
    """The column of one of these names, else the only one that differs in case and blanks alone."""
    keys = set(map(name_key, names))
    exact = [name for name in names if name in available]
    similar = [column for column in available if name_key(column) in keys]
    return exact[0] if exact else similar[0] if len(similar) == 1 else None


def _synonyms(subject: Subject, name: str) -> list[str]:
    if not isinstance(subject, Comparison):
        return []
    if name in subject.fields:
        return [f"{candidate}{name[-2:]}" for candidate in CANDIDATES]
    return list(SHARED) if len(subject.inputs) == 1 else []


def judge_rows(
    exchange: Exchange, rows: Iterable[Mapping[str, object]], client: "Client"
) -> Generator[AnyJudgement, None, None]:
    """One judgement for each row, in order and streaming: rows are read as needed.

    A pair is asked in both orders; a choice that follows the position is a tie.
    """
    from judges.client import Request  # asyncio takes longer to load than a judge

    restate = partial(restated, exchange.prompt) if exchange.restates else None
    gives_probabilities = False
    # For each row read so far: why it cannot be sent, or None.
    pending: deque[str | None] = deque()

    def accept(reply: Reply) -> Sample:
        """Read a reply; NoProbabilitiesError only while no reply has given any probabilities."""
        nonlocal gives_probabilities
        gives_probabilities = gives_probabilities or bool(reply.tokens)
        try:
            return exchange.sample(reply)
        except NoProbabilitiesError as error:
            if gives_probabilities:  # only this reply lacks them
                raise NoScoreError(str(error)) from error
            raise

    def requests() -> "Iterator[Request]":
        for row in rows:
            texts = readable_texts(exchange.subject, row)
            pending.append(texts if isinstance(texts, str) else None)
            if not isinstance(texts, str):
                for shown in (exchange.messages(texts, order) for order in exchange.orders):
                    yield Request(shown, exchange.sampling, accept, restate)

    responses = client.run(requests())
    for response in responses:
        while (reason := pending.popleft()) is not None:
            yield failed_judgement(exchange.subject, reason)
        yield exchange.judgement([response, *islice(responses, len(exchange.orders) - 1)])
    for reason in pending:  # the rows after the last that was sent
        yield failed_judgement(exchange.subject, str(reason))
