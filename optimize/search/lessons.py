"""What a language model is shown of a judge at work, to write a better instruction from.

A lesson holds documents, each with several outputs: how people rated them, how they differ, what
the judge gave, and where both place them. Texts stand in JSON's quotes on one line, so that none of
them can pass for a line of ours.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from judges.judgement import AnyJudgement, Preference
from judges.prompt import LETTERS, Prompt, rating_of, words_of
from optimize.items import Indices, Items, Vector
from optimize.search.candidates import nearest_choice
from optimize.search.evaluator import reason_of
from optimize.statistics.correlations import Level, midranks
from optimize.statistics.plain import order_agreement

# Documents and outputs in one lesson, where documents have several outputs or one each.
DOCUMENTS_SHOWN, OUTPUTS_SHOWN, MAX_OUTPUTS = 12, 5, 36
# Of the documents no more than this share, so that another lesson has others.
LARGEST_SHARE = 2 / 3
# A lesson has no more characters than these, and long texts lose their middle.
LESSON_CHARACTERS, TEXT_LENGTH, REASON_LENGTH, COMMENT_LENGTH = 60_000, 2400, 300, 1200
MAX_RATINGS_LISTED = 6
# A document that the judge orders rightly is drawn this much as often as one it turns around.
RIGHT_WEIGHT = 0.35
# What people explain counts as so many misplacements that nobody does.
EXPLAINED_WEIGHT = 2
# Places that differ by less than this share of the outputs are called the same.
SAME_PLACE = 0.05


class JudgedItems:
    """Items with the judgements of one judge on them, in the items' order.

    Outputs are ranked within documents, or over all items where documents have fewer than three.
    `places` are people's and the judge's places, from 1 for the best; NaN where the judge failed.
    """

    def __init__(self, items: Items, judgements: Sequence[AnyJudgement], prompt: Prompt) -> None:
        self.items, self.judgements = items, judgements
        self.scores: Vector = np.array([judgement.score for judgement in judgements], float)
        self.choices = prompt.answer.choices or ()
        self.is_pairwise, self.words = self.choices == LETTERS, words_of(self.choices)
        # The two that a pair is of stand with it, whatever else it shares with others.
        names = [field.name for field in prompt.inputs]
        self.never_shared = frozenset(names[-2:] if self.is_pairwise else ())
        documents = list(items.places.values())
        within = not (self.is_pairwise or self.words) and max(map(len, documents), default=0) >= 3
        self.groups: list[Indices] = documents if within else [np.arange(len(items))]
        self.places = np.full((2, len(items)), np.nan)
        self.n_ranked = np.ones(len(items))
        for rows in self.groups:
            ranked = rows[~np.isnan(self.scores[rows])]
            self.n_ranked[rows] = max(1, len(ranked))
            self.places[:, ranked] = midranks(-np.array([items.human, self.scores])[:, ranked])
        # By how much the judge ranks each too high: in standardised ranks, of pairs in margins.
        gaps = self.scores - items.human
        if not self.is_pairwise:
            gaps = (self.places[0] - self.places[1]) * math.sqrt(12) / self.n_ranked
        self.gaps: Vector = np.nan_to_num(gaps)
        explained = [EXPLAINED_WEIGHT if item.comment else 1 for item in items.items]
        self.telling: Vector = self.gaps * explained

    def lessons(self, draws: Sequence[np.random.Generator]) -> list[str]:
        """One lesson for each generator, in plain text, each of documents drawn anew."""
        overview = self._pair_overview() if self.is_pairwise else self._overview()
        weights = self._weights()
        lessons = []
        documents = list(self.items.places.values())
        for rng in draws:
            # The greatest of weights times exponential noise: a draw without replacement.
            order = np.argsort(-(np.log(weights) + rng.gumbel(size=len(weights))), kind="stable")
            lesson, drawn = overview, [documents[index] for index in order]
            for number, rows in enumerate(drawn[: _n_documents(documents)], start=1):
                shown = self._outputs_shown(rows)
                part = f" ({len(shown)} of {len(rows)})" if len(shown) < len(rows) else ""
                block = f"\n\nDocument {number}{part}:\n{self.document(shown)}"
                if number > 1 and len(lesson) + len(block) > LESSON_CHARACTERS:
                    break
                lesson += block
            lessons.append(lesson)
        return lessons

    def document(self, rows: Sequence[int]) -> str:
        """These outputs of one document; what they share stands above them."""
        shared = self._shared(rows)
        lines = [f"{name}: {_quoted(text)}" for name, text in shared.items()]
        for row in rows:
            judgement, item = self.judgements[row], self.items.items[row]
            lines.append(self._pair_line(row) if self.is_pairwise else self._rating_line(row))
            own = {name: text for name, text in item.texts.items() if name not in shared}
            lines += [f"  {name}: {_quoted(text)}" for name, text in own.items()]
            if reason := reason_of(judgement):
                lines.append(f"  the judge's reason: {_quoted(reason, REASON_LENGTH)}")
            if item.comment:
                lines.append(f"  people's comment: {_quoted(item.comment, COMMENT_LENGTH)}")
        return "\n".join(lines)

    def _shared(self, rows: Sequence[int]) -> dict[str, str]:
        """The texts that these outputs have in common; none of a single output."""
        first, *others = [self.items.items[row].texts for row in rows]
        if not others:
            return {}
        return {
            name: text
            for name, text in first.items()
            if name not in self.never_shared and all(texts[name] == text for texts in others)
        }

    def _weights(self) -> Vector:
        """How telling each document is: people tell its outputs apart, and the judge does not."""
        human, weights = self.items.human, []
        spread = float(human.std()) or 1.0
        for rows in self.items.places.values():
            centre = human.mean() if len(rows) < 3 else human[rows].mean()
            apart = float(np.abs(human[rows] - (0 if self.is_pairwise else centre)).mean()) / spread
            wrong = min(1.0, float(np.abs(self.telling[rows]).mean()))
            weights.append((0.1 + apart) * (RIGHT_WEIGHT + wrong))
        return np.array(weights)

    def _outputs_shown(self, rows: Indices) -> list[int]:
        """People's best and worst, those most misplaced, and one that is placed rightly."""
        by_people = rows[np.argsort(-self.items.human[rows], kind="stable")]
        telling, gaps = self.telling[rows], np.abs(self.gaps[rows])
        misplaced = [rows[np.argmax(telling)], rows[np.argmin(telling)], rows[np.argmin(gaps)]]
        chosen = dict.fromkeys(map(int, [by_people[0], by_people[-1], *misplaced, *by_people]))
        return sorted(list(chosen)[:OUTPUTS_SHOWN], key=lambda row: (-self.items.human[row], row))

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
            said = [nearest_choice(self.choices, float(value)) for value in (item.human, score)]
            votes = f" ({ratings.count(1)} of {len(ratings)} say {self.words[0]})"
            people = f"- people {said[0]}" + votes * (len(ratings) > 1)
            right = "right" if said[0] == said[1] else "wrong"
            return f"{people}; judge {said[1]} ({self.words[0]} {score:.0%}): {right}"
        (place, judged), n = self.places[:, row], self.n_ranked[row]
        verdict = f"placed too {'low' if judged > place else 'high'}"
        if abs(judged - place) < SAME_PLACE * n:
            verdict = "placed rightly"
        return f"{people}, place {place:g} of {n:g}; judge {score:.3g}, place {judged:g}: {verdict}"

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

    def _overview(self) -> str:
        """How judge and people use the scale, and how the judge orders what people tell apart."""
        human, scores = self.items.human, self.scores
        scored = np.flatnonzero(~np.isnan(scores))
        n = len(scored)
        lines = [f"The judge has rated {n} outputs that people rated."]
        scale = [rating_of(choice, self.choices) for choice in self.choices]
        if n and min(scale) <= human.min() and human.max() <= max(scale):
            judge, people = (
                Counter(nearest_choice(self.choices, float(value)) for value in side[scored])
                for side in (scores, human)
            )
            used = ", ".join(
                f"{c}: {judge[c] / n:.0%} and {people[c] / n:.0%}" for c in self.choices
            )
            lines.append(f"Shares of ratings, the judge's and people's (means rounded): {used}.")
        if self.words:
            good, bad = self.words
            passed, rated = scores[scored] > 0.5, human[scored] > 0.5
            lines.append(
                f"Of {np.sum(~rated)} that people call {bad}, the judge says {good} of "
                f"{np.sum(passed & ~rated)}; of {np.sum(rated)} that people call {good}, it says "
                f"{bad} of {np.sum(~passed & rated)}."
            )
            return "\n".join(lines)
        level: Level = "summary" if len(self.groups) > 1 else "dataset"
        order = order_agreement(scores, human, self.items.document_ids, level=level)
        if order.n_pairs:
            within = "of one document " if level == "summary" else ""
            tied = order.n_ties / order.n_pairs
            right = order.value - tied / 2
            lines.append(
                f"Of {order.n_pairs} pairs of outputs {within}that people tell apart, the judge "
                f"orders {right:.0%} as people do, {1 - right - tied:.0%} the other way, and ties "
                f"{tied:.0%}."
            )
        return "\n".join(lines)

    def _pair_overview(self) -> str:
        decided = self.items.human != 0
        agreement = np.sign(self.scores[decided]) * np.sign(self.items.human[decided])
        n = max(1, len(agreement))
        overview = (
            f"The judge has compared {int((~np.isnan(self.scores)).sum())} pairs. Where people "
            f"prefer one, it prefers the same in {(agreement > 0).sum() / n:.0%} of pairs and the "
            f"other in {(agreement < 0).sum() / n:.0%}."
        )
        follows = [
            verdict.order_ab != verdict.order_ba
            for verdict in self.judgements
            if isinstance(verdict, Preference) and verdict.order_ab and verdict.order_ba
        ]
        if follows:
            overview += (
                f"\nAsked in both orders, it follows the place and not the text in "
                f"{np.mean(follows):.0%} of pairs."
            )
        return overview


def expected_characters(items: Items) -> int:
    """About how many characters of texts a lesson of these items has."""
    documents = list(items.places.values())
    shown = _n_documents(documents) * float(
        np.mean([min(len(d), OUTPUTS_SHOWN) for d in documents])
    )
    comments = [min(len(item.comment), COMMENT_LENGTH) for item in items.items]
    texts = [sum(map(len, item.texts.values())) for item in items.items]
    each = float(np.mean(texts) + np.mean(comments))
    return min(LESSON_CHARACTERS, round(shown * each))


def _n_documents(documents: Sequence[Indices]) -> int:
    """How many documents a lesson has: more where there are few outputs of each."""
    each = float(np.mean([min(len(rows), OUTPUTS_SHOWN) for rows in documents]))
    number = DOCUMENTS_SHOWN if each >= 3 else round(MAX_OUTPUTS / each)
    return max(1, min(number, math.ceil(LARGEST_SHARE * len(documents))))


def _quoted(text: str, length: int = TEXT_LENGTH) -> str:
    """A text in quotes on one line; a long one without its middle."""
    half = length // 2
    if len(text) > length:
        text = f"{text[:half]} [...] {text[-half:]}"
    return json.dumps(text, ensure_ascii=False)


def _vote(margin: float) -> str:
    if np.isnan(margin):
        return "none"
    return f"{'A' if margin > 0 else 'B' if margin < 0 else 'neither'} ({margin:+.2g})"
