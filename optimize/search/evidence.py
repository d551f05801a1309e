"""Evidence: judged documents as a text from which a proposer writes a better instruction.

The text shows documents with several outputs each. An output has people's ratings, the judge's
score, and its place in the order of both. Texts are quoted as JSON strings on one line, so that a
text cannot be mistaken for a line of the evidence.
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

# Upper bounds on the documents shown, on the outputs of a document, and on all outputs if documents
# have few outputs.
DOCUMENTS_SHOWN, OUTPUTS_SHOWN, MAX_OUTPUTS = 12, 5, 36
# The largest share of the documents that is shown at once, so that draws differ.
LARGEST_SHARE = 2 / 3
# Upper bounds on characters: the evidence ends at its bound, and longer texts lose their middle.
EVIDENCE_CHARACTERS, TEXT_LENGTH, REASON_LENGTH, COMMENT_LENGTH = 60_000, 2400, 300, 1200
MAX_RATINGS_LISTED = 6
# The weight in the draw of a document that the judge orders rightly; a reversed one has about 1.
RIGHT_DOCUMENT_WEIGHT = 0.35
# The weight of an output that carries a comment.
COMMENT_WEIGHT = 2
# Two places count as equal if they differ by less than this share of the outputs.
SAME_PLACE = 0.05


class JudgedItems:
    """Items with one judge's judgements, in the same order.

    Outputs are ranked within documents, or over all items if no document has three outputs.

    Attributes:
        ranks: People's and the judge's ranks, of shape (2, items); 1 is the best, and NaN is an
            output on which the judge failed.
        gaps: By how much the judge ranks each output too high, in standard deviations of ranks; for
            pairs, by how much its margin exceeds people's.
        weighted_gaps: The same, doubled for outputs on which people commented.
    """

    def __init__(self, items: Items, judgements: Sequence[AnyJudgement], prompt: Prompt) -> None:
        self.items, self.judgements = items, judgements
        self.scores: Vector = np.array([judgement.score for judgement in judgements], float)
        self.choices = prompt.answer.choices or ()
        self.is_pairwise, self.words = self.choices == LETTERS, words_of(self.choices)
        # Each pair is shown with its two outputs, even if another pair of the document shares them.
        names = [field.name for field in prompt.inputs]
        self.output_names = frozenset(names[-2:] if self.is_pairwise else ())
        documents = list(items.document_rows.values())
        is_by_document = (
            not (self.is_pairwise or self.words) and max(map(len, documents), default=0) >= 3
        )
        self.groups: list[Indices] = documents if is_by_document else [np.arange(len(items))]
        self.ranks = np.full((2, len(items)), np.nan)
        self.n_ranked = np.ones(len(items))
        for rows in self.groups:
            scored = rows[~np.isnan(self.scores[rows])]
            self.n_ranked[rows] = max(1, len(scored))
            self.ranks[:, scored] = midranks(-np.array([items.human, self.scores])[:, scored])
        gaps = self.scores - items.human
        if not self.is_pairwise:
            gaps = (self.ranks[0] - self.ranks[1]) * math.sqrt(12) / self.n_ranked
        self.gaps: Vector = np.nan_to_num(gaps)
        weights = [COMMENT_WEIGHT if item.comment else 1 for item in items.items]
        self.weighted_gaps: Vector = self.gaps * weights

    def evidence(self, draws: Sequence[np.random.Generator]) -> list[str]:
        """Write the evidence once for each generator, which draws the documents to show."""
        overview = "\n".join(self._pair_overview() if self.is_pairwise else self._overview())
        weights, documents = self._weights(), list(self.items.document_rows.values())
        by_draw = []
        for rng in draws:
            # Sorting by log weight plus Gumbel noise draws without replacement by weight.
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
        """The lines about these outputs of a document; texts that all of them share come first."""
        common = self._common_texts(rows)
        lines = [f"{name}: {_quote(text)}" for name, text in common.items()]
        for row in rows:
            judgement, item = self.judgements[row], self.items.items[row]
            lines.append(self._pair_line(row) if self.is_pairwise else self._rating_line(row))
            rest = {name: text for name, text in item.texts.items() if name not in common}
            lines += [f"  {name}: {_quote(text)}" for name, text in rest.items()]
            if reason := reason_of(judgement):
                lines.append(f"  the judge's reason: {_quote(reason, REASON_LENGTH)}")
            if item.comment:
                lines.append(f"  people's comment: {_quote(item.comment, COMMENT_LENGTH)}")
        return "\n".join(lines)

    def _common_texts(self, rows: Sequence[int]) -> dict[str, str]:
        """The texts that these outputs share; {} if there is only one output."""
        first, *others = [self.items.items[row].texts for row in rows]
        names = [name for name in first if name not in self.output_names] if others else []
        return {n: first[n] for n in names if all(texts[n] == first[n] for texts in others)}

    def _weights(self) -> Vector:
        """Each document's weight in the draw.

        It is large if people's labels in the document differ and the judge misplaces the outputs.
        """
        human, weights = self.items.human, []
        spread = float(human.std()) or 1.0
        for rows in self.items.document_rows.values():
            centre = human.mean() if len(rows) < 3 else human[rows].mean()
            deviations = np.abs(human[rows] - (0 if self.is_pairwise else centre))
            human_spread = float(deviations.mean()) / spread
            error = min(1.0, float(np.abs(self.weighted_gaps[rows]).mean()))
            weights.append((0.1 + human_spread) * (RIGHT_DOCUMENT_WEIGHT + error))
        return np.array(weights)

    def _select_outputs(self, rows: Indices) -> list[int]:
        """The outputs of a document to show, best first.

        They include people's best and worst output, the most misplaced ones, and one that the judge
        places rightly.
        """
        best_first = rows[np.argsort(-self.items.human[rows], kind="stable")]
        weighted_gaps, gaps = self.weighted_gaps[rows], np.abs(self.gaps[rows])
        misplaced = [
            rows[np.argmax(weighted_gaps)],
            rows[np.argmin(weighted_gaps)],
            rows[np.argmin(gaps)],
        ]
        candidates = [best_first[0], best_first[-1], *misplaced, *best_first]
        selection = list(dict.fromkeys(map(int, candidates)))[:OUTPUTS_SHOWN]
        return sorted(selection, key=lambda row: (-self.items.human[row], row))

    def _rating_line(self, row: int) -> str:
        item, score = self.items.items[row], self.scores[row]
        ratings = sorted(item.ratings)
        ratings_text = ", ".join(f"{rating:g}" for rating in ratings)
        if len(ratings) > MAX_RATINGS_LISTED:
            ratings_text = f"{len(ratings)} ratings from {ratings[0]:g} to {ratings[-1]:g}"
        people = f"- people {item.human:.3g}" + f" ({ratings_text})" * (len(ratings) > 1)
        if np.isnan(score):
            return f"{people}; the judge gave no rating"
        if self.words:
            label, answer = (nearest_choice(self.choices, float(n)) for n in (item.human, score))
            votes = f" ({ratings.count(1)} of {len(ratings)} say {self.words[0]})"
            people = f"- people {label}" + votes * (len(ratings) > 1)
            right = "right" if label == answer else "wrong"
            return f"{people}; judge {answer} ({self.words[0]} {score:.0%}): {right}"
        (rank, judge_rank), n = self.ranks[:, row], self.n_ranked[row]
        verdict = f"placed too {'low' if judge_rank > rank else 'high'}"
        if abs(judge_rank - rank) < SAME_PLACE * n:
            verdict = "placed rightly"
        return (
            f"{people}, place {rank:g} of {n:g}; judge {score:.3g}, place {judge_rank:g}: {verdict}"
        )

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
        """Yield sentences on how the judge and people use the scale and how often they agree."""
        rows = np.flatnonzero(~np.isnan(self.scores))
        yield f"The judge has rated {len(rows)} outputs that people rated."
        yield from self._share_sentence(self.scores[rows], self.items.human[rows])
        yield from self._error_sentence(rows) if self.words else self._order_sentence()

    def _share_sentence(self, scores: Vector, labels: Vector) -> Iterator[str]:
        """Yield a sentence on how often the judge and people give each choice of the scale.

        There is none if some of people's labels are outside the judge's scale.
        """
        scale = [rating_of(choice, self.choices) for choice in self.choices]
        human, n = self.items.human, len(scores)
        if n and min(scale) <= human.min() and human.max() <= max(scale):
            judge, people = (
                Counter(nearest_choice(self.choices, float(value)) for value in side)
                for side in (scores, labels)
            )
            shares = (
                f"{choice}: {judge[choice] / n:.0%} and {people[choice] / n:.0%}"
                for choice in self.choices
            )
            yield (
                f"Shares of ratings, the judge's and people's (means rounded): {', '.join(shares)}."
            )

    def _error_sentence(self, rows: Indices) -> Iterator[str]:
        """Yield a sentence on both kinds of error of a judge that answers with one of two words."""
        assert self.words
        good, bad = self.words
        judge, people = self.scores[rows] > 0.5, self.items.human[rows] > 0.5
        yield (
            f"Of {np.sum(~people)} that people call {bad}, the judge says {good} of "
            f"{np.sum(judge & ~people)}; of {np.sum(people)} that people call {good}, it says "
            f"{bad} of {np.sum(~judge & people)}."
        )

    def _order_sentence(self) -> Iterator[str]:
        """Yield a sentence on how often the judge orders two outputs as people do."""
        level: Level = "summary" if len(self.groups) > 1 else "dataset"
        documents = self.items.document_ids
        order = order_agreement(self.scores, self.items.human, documents, level=level)
        if order.n_pairs:
            scope = "of one document " if level == "summary" else ""
            ties = order.n_ties / order.n_pairs
            right = order.value - ties / 2
            yield (
                f"Of {order.n_pairs} pairs of outputs {scope}that people tell apart, the judge "
                f"orders {right:.0%} as people do, {1 - right - ties:.0%} the other way, and ties "
                f"{ties:.0%}."
            )

    def _pair_overview(self) -> Iterator[str]:
        """Yield sentences on how often the judge prefers as people do, and how consistently."""
        decided = self.items.human != 0
        agreement = np.sign(self.scores[decided]) * np.sign(self.items.human[decided])
        n = max(1, len(agreement))
        yield (
            f"The judge has compared {int((~np.isnan(self.scores)).sum())} pairs. Where people "
            f"prefer one, it prefers the same in {(agreement > 0).sum() / n:.0%} of pairs and the "
            f"other in {(agreement < 0).sum() / n:.0%}."
        )
        is_inconsistent = [
            verdict.order_ab != verdict.order_ba
            for verdict in self.judgements
            if isinstance(verdict, Preference) and verdict.order_ab and verdict.order_ba
        ]
        if is_inconsistent:
            yield (
                "Asked in both orders, it follows the place and not the text in "
                f"{np.mean(is_inconsistent):.0%} of pairs."
            )


def expected_characters(items: Items) -> int:
    """The expected number of characters of texts and comments in the evidence on these items."""
    documents = list(items.document_rows.values())
    n_outputs = _n_documents(documents) * _mean_outputs(documents)
    comments = [min(len(item.comment), COMMENT_LENGTH) for item in items.items]
    texts = [sum(map(len, item.texts.values())) for item in items.items]
    length = float(np.mean(texts) + np.mean(comments))
    return min(EVIDENCE_CHARACTERS, round(n_outputs * length))


def _mean_outputs(documents: Sequence[Indices]) -> float:
    """The mean number of outputs that are shown for a document."""
    return float(np.mean([min(len(rows), OUTPUTS_SHOWN) for rows in documents]))


def _n_documents(documents: Sequence[Indices]) -> int:
    """The number of documents to show; it is larger if documents have few outputs."""
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
