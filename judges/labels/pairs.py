"""Reads pairs of outputs with people's votes and comments from a table."""

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from judges.labels.cells import is_blank, split_by_annotator, without_keys
from judges.labels.names import judge_name, name_key
from judges.labels.roles import RESPONSE_NAMES, ResponseColumns, Roles
from judges.labels.rows import ItemFields, RowReader, read_comments
from judges.labels.types import LabelledPair, LabelledPairs, Vote
from judges.labels.values import WordValues, is_missing_value, normalize_word
from judges.tables.problems import Problems, UnreadableError, count_text

_VOTE_BY_WORD: dict[str, Vote] = {"a": "A", "b": "B", "model_a": "A", "model_b": "B"}
_TIE_WORDS = "tie draw equal same both neither both_bad bothbad unentschieden gleich égalité empate"
_VOTE_BY_WORD |= dict.fromkeys(_TIE_WORDS.split(), "tie")
# AlpacaEval writes votes as these numbers.
_VOTE_BY_NUMBER: dict[float, Vote] = {1: "A", 2: "B", 1.5: "tie"}
# The votes of negative numbers, zero and positive numbers, in a column with a negative number.
_VOTE_BY_SIGN: dict[int, Vote] = {-1: "A", 0: "tie", 1: "B"}
_NUMBER_PATTERN = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)

# The names of the systems that wrote outputs A and B, or of the columns with outputs A and B.
NamePair = tuple[str | None, str | None]


class VoteReader:
    """Reads the votes in one column.

    The number 1 is a vote for A, 2 for B, and 1.5 is a tie. If the column has a negative number,
    the sign of each number is the vote. A column of only 0 and 1 cannot be read, because either
    number may mean A. `value_by_word` has the user's votes for words in lower case.
    """

    def __init__(
        self, cells: Iterable[object], value_by_word: WordValues, response_columns: NamePair
    ) -> None:
        user_values = value_by_word.items()
        self._user_votes = {word: v for word, v in user_values if isinstance(v, str | None)}
        self._response_columns, self._usual_votes = response_columns, {**_VOTE_BY_WORD}
        words: set[str] = set()
        for cell in cells:
            # An unreadable cell is skipped here. `read` raises the error for it.
            with suppress(UnreadableError):
                words.update(normalize_word(vote) for _, vote in split_by_annotator(cell))
        number_words = {*filter(_NUMBER_PATTERN.fullmatch, words - self._user_votes.keys())}
        self._numbers = {*map(float, number_words)}
        self.has_negative_numbers = min(self._numbers, default=0) < 0
        if self.has_negative_numbers:
            for word in number_words:
                sign = (float(word) > 0) - (float(word) < 0)
                self._usual_votes[word] = _VOTE_BY_SIGN[sign]
        elif self._numbers <= _VOTE_BY_NUMBER.keys() and self._numbers != {1}:
            self._usual_votes |= {word: _VOTE_BY_NUMBER[float(word)] for word in number_words}

    def read(self, cell: object, systems: NamePair) -> tuple[Vote, ...]:
        """Return all votes in a cell; raises UnreadableError for a value that is not a vote.

        The names of the two `systems` count as votes, too. An empty cell has no votes.
        """
        votes = (self._read_vote(value, systems) for _, value in split_by_annotator(cell))
        return tuple(filter(None, votes))

    def _read_vote(self, value: object, systems: NamePair) -> Vote | None:
        """Return the vote of one annotator; None for a missing vote, such as `n/a`."""
        word = normalize_word(value)
        if word in self._user_votes:
            return self._user_votes[word]
        vote_by_name = _vote_by_name(word, systems) or _vote_by_name(word, self._response_columns)
        usual_vote = self._usual_votes.get("tie" if word.startswith("tie") else word)
        possible_votes = {vote_by_name, usual_vote} - {None}
        if len(possible_votes) == 1 or is_missing_value(value):
            return usual_vote or vote_by_name
        fault = "is not a vote"
        if possible_votes:
            fault = f"may be a system's name ({vote_by_name}) or a usual vote ({usual_vote})"
        meaning_advice = "what it means, as in --values WORD=A"
        if self._numbers and self._numbers <= {0, 1}:
            meaning_advice = "which is which: --values 0=A,1=B (or 0=B,1=A)"
        elif self._numbers == {0, 1, 2}:
            meaning_advice = "which is which: --values 0=tie,1=A,2=B"
        advice = f"write A, B or tie, or say {meaning_advice}"
        raise UnreadableError("no-vote", fault, advice, value)


def _vote_by_name(word: str, names: NamePair) -> Vote | None:
    """Return the vote for the system or column called `word`; None if none or both are."""
    name_a, name_b = (name_key(normalize_word(name or "")) for name in names)
    vote_by_key: dict[str, Vote] = {name_a: "A", name_b: "B"}
    return vote_by_key.get(name_key(word)) if name_a != name_b else None


def read_pair_rows(roles: Roles, problems: Problems) -> LabelledPairs:
    """Read the pairs that have a vote, or all pairs if people have yet to label the file."""
    assert roles.responses is not None
    row_reader = RowReader(roles, problems)
    votes_by_pair = _read_votes(roles, roles.responses, problems)
    comments_by_pair: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for row, _, comment in read_comments(roles):
        comments_by_pair[roles.item_id(row)] += (comment,)
    pairs = [
        _make_pair(item, votes_by_pair[item.id], comments_by_pair[item.id])
        for item in row_reader.read_rows()
    ]
    if roles.options.reads_labels:
        n_pairs, pairs = len(pairs), [pair for pair in pairs if pair.votes]
        if n_without_votes := n_pairs - len(pairs):
            problems.notes.append(f"left out {count_text(n_without_votes, 'pair')} without a vote")
        if not pairs and not problems:
            advice = "give people's votes in a column called votes or preferred"
            problems.add("no-vote", "no pair has a vote", advice)
    return LabelledPairs(
        name=roles.columns.table.name,
        sha256=roles.columns.table.sha256,
        pairs=tuple(pairs),
        candidate=judge_name(roles.responses.shared_name) or "response",
        grouped_by=row_reader.grouped_by,
        reading=row_reader.file_reading(),
    )


def _make_pair(item: ItemFields, votes: list[Vote], comments: tuple[str, ...]) -> LabelledPair:
    return LabelledPair(
        id=item.id,
        document_id=item.document_id,
        texts=without_keys(item.texts, RESPONSE_NAMES),
        response_a=item.texts["response_a"],
        response_b=item.texts["response_b"],
        system_a=item.systems[0],
        system_b=item.systems[1],
        votes=tuple(votes),
        comments=comments,
    )


def _read_votes(
    roles: Roles, responses: ResponseColumns, problems: Problems
) -> dict[str, list[Vote]]:
    """Map each pair's id to all votes on the pair; adds a problem for each unreadable cell."""
    votes_by_pair: dict[str, list[Vote]] = defaultdict(list)
    for column in roles.rating_columns["votes"] if roles.options.reads_labels else ():
        cells = roles.columns.column(column).cells
        reader = VoteReader(cells, roles.options.value_by_word, responses.columns)
        if reader.has_negative_numbers:
            note = "negative numbers are A, positive are B, and 0 is a tie; --values reverses this"
            problems.notes.append(f"{column}: {note}")
        for row, cell in zip(roles.rows, cells, strict=True):
            names = (roles.columns.cell(row, role) for role in ("system_a", "system_b"))
            system_a, system_b = (None if is_blank(name) else str(name) for name in names)
            with problems.collect(line=row.line, field=column):
                votes_by_pair[roles.item_id(row)] += reader.read(cell, (system_a, system_b))
    return votes_by_pair
