"""Evidence: what a language model sees of a judge's work in order to write a better instruction.

It shows documents with several outputs each: people's ratings, the judge's score, and the
place of each output in both orders. Texts are JSON strings on one line, so that no text can pass
for a line of the evidence.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from judges.judgement import AnyJudgement, Preference
from judges.prompt import LETTERS, Prompt, rating_of, words_of
from optimize.items import Indices, Items, Vector
from optimize.search.candidates import nearest_choice
from optimize.search.evaluator import reason_of
from optimize.statistics.correlations import Level, midranks
from optimize.statistics.plain import order_agreement

# Documents shown, outputs of a document, and outputs in all if documents have few.
DOCUMENTS_SHOWN, OUTPUTS_SHOWN, MAX_OUTPUTS = 12, 5, 36
# The largest share of the documents shown at once, so that another draw has others.
LARGEST_SHARE = 2 / 3
# Upper bounds on characters: the evidence ends there, and longer texts lose their middle.
EVIDENCE_CHARACTERS, TEXT_LENGTH, REASON_LENGTH, COMMENT_LENGTH = 60_000, 2400, 300, 1200
MAX_RATINGS_LISTED = 6
# How often a document that the judge orders rightly is drawn, relative to one that it reverses.
RIGHT_WEIGHT = 0.35
# The weight of an output that carries a comment.
EXPLAINED_WEIGHT = 2
# Two places count as the same if they differ by less than this share of the outputs.
SAME_PLACE = 0.05


class JudgedItems:
    """Items with one judge's judgements of them, in the items' order.

    Outputs are ranked within documents, or over all items if no document has three. `ranks` has
    shape (2, items): people's and the judge's ranks, 1 for the best, NaN where the judge failed.
    `gaps` says by how much the judge ranks an output too high, in standard deviations of ranks (of
    pairs, in margins), and `telling` is the same, larger where people explained their label.
    """

    def __init__(self, items: Items, judgements: Sequence[AnyJudgement], prompt: Prompt) -> None:
        self.items, self.judgements = items, judgements
        self.scores: Vector = np.array([judgement.score for judgement in judgements], float)
        self.choices = prompt.answer.choices or ()
        self.is_pairwise, self.words = self.choices == LETTERS, words_of(self.choices)
        # The two outputs of a pair are shown with it, even if other pairs have the same ones.
        names = [field.name for field in prompt.inputs]
        self.own_texts = frozenset(names[-2:] if self.is_pairwise else ())
        documents = list(items.document_rows.values())
        within = not (self.is_pairwise or self.words) and max(map(len, documents), default=0) >= 3
        self.groups: list[Indices] = documents if within else [np.arange(len(items))]
        self.ranks = np.full((2, len(items)), np.nan)
        self.n_ranked = np.ones(len(items))
        for rows in self.groups:
            own = rows[~np.isnan(self.scores[rows])]
            self.n_ranked[rows] = max(1, len(own))
            self.ranks[:, own] = midranks(-np.array([items.human, self.scores])[:, own])
        gaps = self.scores - items.human
        if not self.is_pairwise:
            gaps = (self.ranks[0] - self.ranks[1]) * math.sqrt(12) / self.n_ranked
        self.gaps: Vector = np.nan_to_num(gaps)
        weights = [EXPLAINED_WEIGHT if item.comment else 1 for item in items.items]
        self.telling: Vector = self.gaps * weights

    def evidence(self, draws: Sequence[np.random.Generator]) -> list[str]:
        """The evidence in plain text for each generator, which draws its documents."""
        overview = "\n".join(self._pair_overview() if self.is_pairwise else self._overview())
        weights, documents = self._weights(), list(self.items.document_rows.values())
        by_draw = []
        for rng in draws:
            # The order by log weight plus Gumbel noise is a weighted draw without replacement.
            order = np.argsort(-(np.log(weights) + rng.gumbel(size=len(weights))), kind="stable")
            text = overview
            for number, index in enumerate(order[: _n_documents(documents)], start=1):
                outputs = self._select_outputs(documents[index])
                n, size = len(outputs), len(documents[index])
                part = f" ({n} of {size})" if n < size else ""
                block = f"\n\nDocument {number}{part}:\n{self.document(outputs)}"
                if number > 1 and len(text) + len(block) > EVIDENCE_CHARACTERS:
                    break
                text += block
            by_draw.append(text)
        return by_draw

    def document(self, rows: Sequence[int]) -> str:
        """The lines on these outputs of one document, with the texts that all share on top."""
        common = self._common_texts(rows)
        lines = [f"{name}: {_quote(text)}" for name, text in common.items()]
        for row in rows:
            judgement, item = self.judgements[row], self.items.items[row]
            lines.append(self._pair_line(row) if self.is_pairwise else self._rating_line(row))
            own = {name: text for name, text in item.texts.items() if name not in common}
            lines += [f"  {name}: {_quote(text)}" for name, text in own.items()]
            if reason := reason_of(judgement):
                lines.append(f"  the judge's reason: {_quote(reason, REASON_LENGTH)}")
            if item.comment:
                lines.append(f"  people's comment: {_quote(item.comment, COMMENT_LENGTH)}")
        return "\n".join(lines)

    def _common_texts(self, rows: Sequence[int]) -> dict[str, str]:
        """The texts that these outputs have in common; {} for a single output."""
        first, *others = [self.items.items[row].texts for row in rows]
        names = [name for name in first if name not in self.own_texts] if others else []
        return {n: first[n] for n in names if all(texts[n] == first[n] for texts in others)}

    def _weights(self) -> Vector:
        """Each document's weight, larger if people tell outputs apart that the judge misplaces."""
        human, weights = self.items.human, []
        spread = float(human.std()) or 1.0
        for rows in self.items.document_rows.values():
            centre = human.mean() if len(rows) < 3 else human[rows].mean()
            apart = float(np.abs(human[rows] - (0 if self.is_pairwise else centre)).mean()) / spread
            wrong = min(1.0, float(np.abs(self.telling[rows]).mean()))
            weights.append((0.1 + apart) * (RIGHT_WEIGHT + wrong))
        return np.array(weights)

    def _select_outputs(self, rows: Indices) -> list[int]:
        """People's best and worst output, the most misplaced ones, and one in its right place."""
        by_people = rows[np.argsort(-self.items.human[rows], kind="stable")]
        telling, gaps = self.telling[rows], np.abs(self.gaps[rows])
        misplaced = [rows[np.argmax(telling)], rows[np.argmin(telling)], rows[np.argmin(gaps)]]
        candidates = [by_people[0], by_people[-1], *misplaced, *by_people]
        selection = list(dict.fromkeys(map(int, candidates)))[:OUTPUTS_SHOWN]
        return sorted(selection, key=lambda row: (-self.items.human[row], row))

    def _rating_line(self, row: int) -> str:
        item, score = self.items.items[row], self.scores[row]
        ratings = sorted(item.ratings)
        each = ", ".join(f"{rating:g}" for rating in ratings)
        if len(ratings) > MAX_RATINGS_LISTED:
            each = f"{len(ratings)} ratings from {ratings[0]:g} to {ratings[-1]:g}"
        people = f"- people {item.human:.3g}" + f" ({each})" * (len(ratings) > 1)
        if np.isnan(score):
            return f"{people}; the judge gave no rating"
        if self.words:
            label, answer = (nearest_choice(self.choices, float(n)) for n in (item.human, score))
            votes = f" ({ratings.count(1)} of {len(ratings)} say {self.words[0]})"
            people = f"- people {label}" + votes * (len(ratings) > 1)
            right = "right" if label == answer else "wrong"
            return f"{people}; judge {answer} ({self.words[0]} {score:.0%}): {right}"
        (place, own), n = self.ranks[:, row], self.n_ranked[row]
        verdict = f"placed too {'low' if own > place else 'high'}"
        if abs(own - place) < SAME_PLACE * n:
            verdict = "placed rightly"
        return f"{people}, place {place:g} of {n:g}; judge {score:.3g}, place {own:g}: {verdict}"

    def _pair_line(self, row: int) -> str:
        item, judgement = self.items.items[row], self.judgements[row]
        counts = Counter("A" if vote > 0 else "B" if vote < 0 else "tie" for vote in item.ratings)
        votes = ", ".join(f"{n} {vote}" for vote, n in sorted(counts.items()))
        line = f"- people {_vote(item.human)}" + f" ({votes})" * bool(votes)
        line += f"; judge {_vote(self.scores[row])}"
        if isinstance(judgement, Preference) and judgement.order_ab and judgement.order_ba:
            line += (
                f" ({judgement.order_ab} where A stands first, {judgement.order_ba} where B does)"
            )
        agreement = np.nan_to_num(item.human * self.scores[row])
        return line + (": right" if agreement > 0 else ": wrong" if agreement < 0 else "")

    def _overview(self) -> Iterator[str]:
        """Yield how judge and people use the scale, and where the judge orders as people do."""
        rows = np.flatnonzero(~np.isnan(self.scores))
        yield f"The judge has rated {len(rows)} outputs that people rated."
        yield from self._shares(self.scores[rows], self.items.human[rows])
        yield from self._errors(rows) if self.words else self._order()

    def _shares(self, scores: Vector, labels: Vector) -> Iterator[str]:
        """Yield how often the judge and people give each choice, if people stay on the scale."""
        scale = [rating_of(choice, self.choices) for choice in self.choices]
        human, n = self.items.human, len(scores)
        if n and min(scale) <= human.min() and human.max() <= max(scale):
            judge, people = (
                Counter(nearest_choice(self.choices, float(value)) for value in side)
                for side in (scores, labels)
            )
            shares = (f"{c}: {judge[c] / n:.0%} and {people[c] / n:.0%}" for c in self.choices)
            yield (
                f"Shares of ratings, the judge's and people's (means rounded): {', '.join(shares)}."
            )

    def _errors(self, rows: Indices) -> Iterator[str]:
        """Yield how often the judge errs on each of the two words."""
        assert self.words
        good, bad = self.words
        judge, people = self.scores[rows] > 0.5, self.items.human[rows] > 0.5
        yield (
            f"Of {np.sum(~people)} that people call {bad}, the judge says {good} of "
            f"{np.sum(judge & ~people)}; of {np.sum(people)} that people call {good}, it says "
            f"{bad} of {np.sum(~judge & people)}."
        )

    def _order(self) -> Iterator[str]:
        """Yield how often the judge orders two outputs as people do, if people order any."""
        level: Level = "summary" if len(self.groups) > 1 else "dataset"
        documents = self.items.document_ids
        order = order_agreement(self.scores, self.items.human, documents, level=level)
        if order.n_pairs:
            within = "of one document " if level == "summary" else ""
            ties = order.n_ties / order.n_pairs
            right = order.value - ties / 2
            yield (
                f"Of {order.n_pairs} pairs of outputs {within}that people tell apart, the judge "
                f"orders {right:.0%} as people do, {1 - right - ties:.0%} the other way, and ties "
                f"{ties:.0%}."
            )

    def _pair_overview(self) -> Iterator[str]:
        """Yield how often the judge prefers what people prefer, and follows the place."""
        decided = self.items.human != 0
        agreement = np.sign(self.scores[decided]) * np.sign(self.items.human[decided])
        n = max(1, len(agreement))
        yield (
            f"The judge has compared {int((~np.isnan(self.scores)).sum())} pairs. Where people "
            f"prefer one, it prefers the same in {(agreement > 0).sum() / n:.0%} of pairs and the "
            f"other in {(agreement < 0).sum() / n:.0%}."
        )
        inconsistencies = [
            verdict.order_ab != verdict.order_ba
            for verdict in self.judgements
            if isinstance(verdict, Preference) and verdict.order_ab and verdict.order_ba
        ]
        if inconsistencies:
            yield (
                "Asked in both orders, it follows the place and not the text in "
                f"{np.mean(inconsistencies):.0%} of pairs."
            )


def expected_characters(items: Items) -> int:
    """About how many characters of texts and comments the evidence of these items has."""
    documents = list(items.document_rows.values())
    n_outputs = _n_documents(documents) * _mean_outputs(documents)
    comments = [min(len(item.comment), COMMENT_LENGTH) for item in items.items]
    texts = [sum(map(len, item.texts.values())) for item in items.items]
    length = float(np.mean(texts) + np.mean(comments))
    return min(EVIDENCE_CHARACTERS, round(n_outputs * length))


def _mean_outputs(documents: Sequence[Indices]) -> float:
    """The mean number of outputs shown of a document."""
    return float(np.mean([min(len(rows), OUTPUTS_SHOWN) for rows in documents]))


def _n_documents(documents: Sequence[Indices]) -> int:
    """How many documents are shown: more if each has few outputs."""
    outputs = _mean_outputs(documents)
    number = DOCUMENTS_SHOWN if outputs >= 3 else round(MAX_OUTPUTS / outputs)
    return max(1, min(number, math.ceil(LARGEST_SHARE * len(documents))))


def _quote(text: str, length: int = TEXT_LENGTH) -> str:
    """The text as a JSON string on one line; a long text loses its middle."""
    half = length // 2
    if len(text) > length:
        text = f"{text[:half]} [...] {text[-half:]}"
    return json.dumps(text, ensure_ascii=False)


def _vote(margin: float) -> str:
    if np.isnan(margin):
        return "none"
    return f"{'A' if margin > 0 else 'B' if margin < 0 else 'neither'} ({margin:+.2g})"
