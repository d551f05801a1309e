"""What a language model is shown of a judge at work, to write a better instruction from.

Each lesson holds documents drawn anew, each once with several of its outputs: how people rated
them, how they differ, what the judge gave, and where both place them. Texts stand in JSON's quotes
on one line, so that none of them can pass for a line of ours.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from scipy.stats import rankdata

from judges.judgement import AnyJudgement, Verdict
from judges.prompt import Prompt
from optimize.items import Indices, Item, Items, Vector
from optimize.search.demos import nearest_choice

# Documents and outputs in one lesson, where documents have several outputs or one each.
DOCUMENTS_SHOWN, OUTPUTS_SHOWN, MAX_OUTPUTS = 12, 5, 36
# Of the documents no more than this share, so that another lesson has others.
LARGEST_SHARE = 2 / 3
# Texts lose their middle until a lesson has no more characters of them.
LESSON_CHARACTERS, TEXT_LENGTHS = 60_000, (2400, 1600, 1000, 600, 300)
REASON_LENGTH, MAX_RATINGS_LISTED = 300, 6
# A document that the judge orders rightly is drawn this much as often as one it turns around.
RIGHT_WEIGHT = 0.35
# Pairs of outputs that are counted, where documents have one output each.
MAX_COUNTED = 600


class JudgedItems:
    """Items with the judgements of one judge on them, in the items' order.

    Orders are within documents, or over all items where documents have fewer than three.
    """

    def __init__(self, items: Items, judgements: Sequence[AnyJudgement], prompt: Prompt) -> None:
        self.items, self.judgements = items, judgements
        self.scores: Vector = np.array([judgement.score for judgement in judgements], float)
        self.choices = prompt.answer.choices or ()
        self.is_pairwise = self.choices == ("A", "B")
        # The two that a pair is of; they stand with it, whatever else it shares with others.
        names = [field.name for field in prompt.inputs]
        self.candidates = frozenset(names[-2:] if self.is_pairwise else ())
        places = list(items.places.values())
        within = not self.is_pairwise and max(map(len, places), default=0) >= 3
        self.groups: list[Indices] = places if within else [np.arange(len(items))]
        self.group_of = {int(row): rows for rows in self.groups for row in rows}
        self.gaps = self._gaps()

    def lessons(self, draws: Sequence[np.random.Generator]) -> list[str]:
        """One lesson for each generator, in plain text; the items are not empty."""
        overview = self._pair_overview() if self.is_pairwise else self._overview()
        weights = self._weights()
        return [self._lesson(overview, weights, rng) for rng in draws]

    def _lesson(self, overview: str, weights: Vector, rng: np.random.Generator) -> str:
        documents = list(self.items.places.values())
        number = _n_documents(documents)
        # The greatest of weights times exponential noise: a draw without replacement.
        order = np.argsort(-(np.log(weights) + rng.gumbel(size=len(weights))), kind="stable")
        drawn = [self._outputs_shown(documents[index]) for index in order[:number]]
        length = self._text_length(drawn)
        blocks = [
            self._document(number, rows, len(documents[index]), length)
            for number, (index, rows) in enumerate(zip(order, drawn, strict=False), start=1)
        ]
        return "\n\n".join([overview, *blocks])

    def _weights(self) -> Vector:
        """How telling each document is: people tell its outputs apart, and the judge does not."""
        human, gaps = self.items.human, self.gaps
        spread = float(human.std()) or 1.0
        weights = []
        for rows in self.items.places.values():
            centre = human.mean() if len(rows) < 3 else human[rows].mean()
            apart = float(np.abs(human[rows] - (0 if self.is_pairwise else centre)).mean()) / spread
            wrong = min(1.0, float(np.abs(gaps[rows]).mean()))
            weights.append((0.1 + apart) * (RIGHT_WEIGHT + wrong))
        return np.array(weights)

    def _gaps(self) -> Vector:
        """By how much the judge ranks each too high: in standardised ranks, of pairs in margins."""
        human = self.items.human
        if self.is_pairwise:
            return np.nan_to_num(self.scores - human)
        gaps = np.zeros(len(self.items))
        for rows in self.groups:
            scored = rows[~np.isnan(self.scores[rows])]
            if len(scored) > 1:
                judge, people = rankdata(self.scores[scored]), rankdata(human[scored])
                gaps[scored] = (judge - people) * np.sqrt(12) / len(scored)
        return gaps

    def _outputs_shown(self, rows: Indices) -> Indices:
        """People's best and worst, those most misplaced, and one that is placed rightly."""
        human, gaps = self.items.human[rows], self.gaps[rows]
        by_people = np.argsort(-human, kind="stable")
        telling = [
            by_people[0],
            by_people[-1],
            int(np.argmax(gaps)),
            int(np.argmin(gaps)),
            int(np.argmin(np.abs(gaps))),
            *by_people,
        ]
        chosen = list(dict.fromkeys(map(int, telling)))[:OUTPUTS_SHOWN]
        return rows[sorted(chosen, key=lambda index: (-human[index], index))]

    def _text_length(self, drawn: Sequence[Indices]) -> int:
        """The longest that texts may be, so that all of them fit."""
        lengths = [
            length for rows in drawn for length in _lengths([self.items.items[row] for row in rows])
        ]
        return next(
            (
                most
                for most in TEXT_LENGTHS
                if sum(min(length, most) for length in lengths) <= LESSON_CHARACTERS
            ),
            TEXT_LENGTHS[-1],
        )

    def _document(self, number: int, rows: Indices, n_outputs: int, length: int) -> str:
        items = [self.items.items[row] for row in rows]
        shared = _shared(items, self.candidates)
        kind = "pairs" if self.is_pairwise else "outputs"
        excerpt_note = f", {len(rows)} of its {n_outputs} {kind}" if len(rows) < n_outputs else ""
        lines = [f"Document {number}{excerpt_note}:"]
        lines += [f"{name}: {_quoted(text, length)}" for name, text in shared.items()]
        for row, item in zip(rows, items, strict=True):
            lines.append(self._pair_line(row) if self.is_pairwise else self._rating_line(row))
            lines += [
                f"  {name}: {_quoted(text, length)}"
                for name, text in item.texts.items()
                if name not in shared
            ]
            judgement = self.judgements[row]
            reason = judgement.comparison if isinstance(judgement, Verdict) else judgement.rationale
            if reason:
                lines.append(f"  the judge's reason: {_quoted(reason, REASON_LENGTH)}")
            if item.comment:
                lines.append(f"  people's comment: {_quoted(item.comment, REASON_LENGTH)}")
        return "\n".join(lines)

    def _rating_line(self, row: int) -> str:
        item, score = self.items.items[row], self.scores[row]
        group = self.group_of[int(row)]
        scored = group[~np.isnan(self.scores[group])]
        people = f"- people {item.human:.3g}{_each(item)}"
        if np.isnan(score):
            return f"{people}; the judge gave no rating"
        place = _place(self.items.human[scored], item.human)
        judge_place = _place(self.scores[scored], score)
        gap = sum(judge_place) - sum(place)  # places count from the best
        if place == judge_place or abs(gap) < 0.1 * len(scored):
            verdict = "placed rightly"
        else:
            verdict = f"placed too {'low' if gap > 0 else 'high'}"
        return (
            f"{people}, place {_range(place)} of {len(scored)}; judge {score:.3g}, place "
            f"{_range(judge_place)}: {verdict}"
        )

    def _pair_line(self, row: int) -> str:
        item, judgement = self.items.items[row], self.judgements[row]
        line = f"- people {_vote(item.human)}{_votes(item)}; judge {_vote(self.scores[row])}"
        orders = (judgement.order_ab, judgement.order_ba) if isinstance(judgement, Verdict) else ()
        if all(orders) and orders:
            line += f" ({orders[0]} where A stands first, {orders[1]} where B does)"
        if np.isnan(self.scores[row]) or item.human * self.scores[row] == 0:
            return line
        return line + (": right" if item.human * self.scores[row] > 0 else ": wrong")

    def _overview(self) -> str:
        """How judge and people use the scale, and how the judge orders what people tell apart."""
        human, scores = self.items.human, self.scores
        scored = ~np.isnan(scores)
        lines = [f"The judge has rated {int(scored.sum())} outputs that people rated."]
        shares = [
            Counter(nearest_choice(self.choices, float(value)) for value in side[scored])
            for side in (scores, human)
        ]
        total = max(1, int(scored.sum()))
        if self.choices and self.choices[0] <= human.min() and human.max() <= self.choices[-1]:
            used = ", ".join(
                f"{choice}: {shares[0][choice] / total:.0%} and {shares[1][choice] / total:.0%}"
                for choice in self.choices
            )
            top = max(self.choices, key=lambda choice: shares[0][choice] - shares[1][choice])
            lines += [
                f"Shares of ratings, the judge's and people's (their means rounded): {used}.",
                f"The judge gave {top} to {shares[0][top] / total:.0%} of outputs; people gave it "
                f"to {shares[1][top] / total:.0%}.",
            ]
        right = tied = wrong = 0
        for rows in self.groups:
            part = rows[scored[rows]][:MAX_COUNTED]
            apart = np.triu(human[part][:, None] != human[part][None, :], 1)
            order = np.sign(human[part][:, None] - human[part][None, :])
            agreement = (np.sign(scores[part][:, None] - scores[part][None, :]) * order)[apart]
            right, tied = right + int((agreement > 0).sum()), tied + int((agreement == 0).sum())
            wrong += int((agreement < 0).sum())
        if n_pairs := right + tied + wrong:
            within = "of one document " if len(self.groups) > 1 else ""
            lines.append(
                f"Of {n_pairs} pairs of outputs {within}that people tell apart, the judge orders "
                f"{right / n_pairs:.0%} as people do and {wrong / n_pairs:.0%} the other way, and "
                f"ties {tied / n_pairs:.0%}."
            )
        return "\n".join(lines)

    def _pair_overview(self) -> str:
        verdicts = [
            judgement
            for judgement in self.judgements
            if isinstance(judgement, Verdict) and judgement.order_ab and judgement.order_ba
        ]
        agreement = np.sign(self.scores) * np.sign(self.items.human)
        n_decided = max(1, int((self.items.human != 0).sum()))
        lines = [
            f"The judge has compared {int((~np.isnan(self.scores)).sum())} pairs. Where people "
            f"prefer one, it prefers the same in {(agreement > 0).sum() / n_decided:.0%} of pairs "
            f"and the other in {(agreement < 0).sum() / n_decided:.0%}."
        ]
        if verdicts:
            follows = sum(verdict.order_ab != verdict.order_ba for verdict in verdicts)
            lines.append(
                "Asked in both orders, it follows the place and not the text in "
                f"{follows / len(verdicts):.0%} of pairs."
            )
        return "\n".join(lines)


def expected_characters(items: Items) -> int:
    """About how many characters of texts a lesson of these items has."""
    documents = list(items.places.values())
    lengths = [
        sum(_lengths([items.items[row] for row in rows[:OUTPUTS_SHOWN]])) for rows in documents
    ]
    return min(LESSON_CHARACTERS, round(_n_documents(documents) * sum(lengths) / len(lengths)))


def _n_documents(documents: Sequence[Indices]) -> int:
    """How many documents a lesson has: more where there are few outputs of each."""
    each = float(np.mean([min(len(rows), OUTPUTS_SHOWN) for rows in documents]))
    number = DOCUMENTS_SHOWN if each >= 3 else round(MAX_OUTPUTS / each)
    return max(1, min(number, math.ceil(LARGEST_SHARE * len(documents))))


def _lengths(items: Sequence[Item]) -> list[int]:
    """The lengths of the texts that stand in a lesson for these outputs of a document."""
    shared = _shared(items)
    lengths = [
        len(text) for item in items for name, text in item.texts.items() if name not in shared
    ]
    return [*map(len, shared.values()), *lengths]


def _shared(items: Sequence[Item], own: Collection[str] = ()) -> dict[str, str]:
    """The texts that all of a document's outputs have in common; none of a single output.

    The `own` texts never are.
    """
    if len(items) < 2:
        return {}
    return {
        name: text
        for name, text in items[0].texts.items()
        if name not in own and all(item.texts[name] == text for item in items)
    }


def _quoted(text: str, length: int) -> str:
    """A text in quotes on one line; a long one without its middle."""
    return json.dumps(without_middle(text, length), ensure_ascii=False)


def without_middle(text: str, length: int) -> str:
    """A text's two ends, so many characters together; a shorter one whole."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]} [...] {text[-half:]}"


def _each(item: Item) -> str:
    """What each annotator gave, or the range of many."""
    ratings = sorted(item.ratings)
    if len(ratings) < 2:
        return ""
    if len(ratings) > MAX_RATINGS_LISTED:
        return f" ({len(ratings)} ratings from {ratings[0]:g} to {ratings[-1]:g})"
    return f" ({', '.join(f'{rating:g}' for rating in ratings)})"


def _votes(item: Item) -> str:
    if not item.ratings:
        return ""
    counts = Counter("A" if vote > 0 else "B" if vote < 0 else "tie" for vote in item.ratings)
    return f" ({', '.join(f'{counts[vote]} {vote}' for vote in ('A', 'B', 'tie') if counts[vote])})"


def _vote(margin: float) -> str:
    if np.isnan(margin):
        return "none"
    return f"{'A' if margin > 0 else 'B' if margin < 0 else 'neither'} ({margin:+.2g})"


def _place(values: Vector, value: float) -> tuple[int, int]:
    """The first and last place, from the highest, of those with a value."""
    return 1 + int((values > value).sum()), int((values >= value).sum())


def _range(place: tuple[int, int]) -> str:
    return f"{place[0]}" if place[0] == place[1] else f"{place[0]} to {place[1]} (tied)"
