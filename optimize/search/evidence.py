"""Evidence: the part of the proposer's prompt that shows how people and the judge rate documents.

The evidence shows documents with several outputs each, and for each output people's ratings, the
judge's score, and its rank by both (called "place"). Texts are quoted as JSON strings on one line,
so that no text can be mistaken for a line of the evidence.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from judges.judgement import AnyJudgement, Preference, preferred_output
from judges.prompt import PAIR_ANSWERS, Prompt, choice_number, verdict_words_of
from optimize.items import Indices, Items
from optimize.search.candidates import nearest_choice
from optimize.statistics.coefficients import midranks
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Vector
from optimize.statistics.plain_agreement import pairwise_accuracy

# Upper bounds on the documents that the evidence shows, and on the outputs of each document. If
# documents have fewer than three outputs, more documents are shown, with about `MAX_OUTPUTS_SHOWN`
# outputs in all.
MAX_DOCUMENTS_SHOWN, MAX_OUTPUTS_OF_DOCUMENT, MAX_OUTPUTS_SHOWN = 12, 5, 36
# Upper bound on the share of documents in one prompt, so that draws for several prompts differ.
MAX_SHARE_SHOWN = 2 / 3
# Upper bounds on the characters of the evidence, and of one text, reason or comment in it. The
# middle of a longer text is cut out.
MAX_EVIDENCE_LENGTH, MAX_TEXT_LENGTH = 60_000, 2400
MAX_REASON_LENGTH, MAX_COMMENT_LENGTH = 300, 1200
# A document's sampling weight grows with this number plus the judge's error on the document (at
# most 1).
RIGHT_ORDER_WEIGHT = 0.35
# The judge's error on an output counts this many times if annotators commented on the output.
COMMENT_WEIGHT = 2
# Two ranks count as equal if they differ by less than this share of the number of ranked outputs.
EQUAL_RANK_SHARE = 0.05


class JudgedItems:
    """Items and the judgements of one judge on these items, in the same order.

    Outputs are ranked within their documents. If no document has three outputs, and for pairs and
    verdicts, all outputs are ranked together. `ranks` has the ranks by people's labels (row 0) and
    by the judge's scores (row 1); 1 is the best. `gaps` is how much the judge overrates each
    output, in standard deviations of ranks; for pairs, the judge's margin minus people's margin.
    """

    def __init__(self, items: Items, judgements: Sequence[AnyJudgement], prompt: Prompt) -> None:
        self.items, self.judgements = items, judgements
        self.scores: Vector = np.array([judgement.score for judgement in judgements], float)
        self.choices = prompt.answer_field.allowed_values
        self.is_pairwise, self.words = self.choices == PAIR_ANSWERS, verdict_words_of(self.choices)
        # The two outputs of a pair are always shown with the pair, even if all pairs of the
        # document share one of them.
        names = [field.name for field in prompt.input_fields]
        self.output_names = frozenset(names[-2:] if self.is_pairwise else ())
        documents = list(items.rows_by_document.values())
        self.groups: list[Indices] = [np.arange(len(items))]
        if not (self.is_pairwise or self.words) and max(map(len, documents), default=0) >= 3:
            self.groups = documents
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
        weights = [COMMENT_WEIGHT if item.comment else 1 for item in items]
        self.weighted_gaps: Vector = self.gaps * weights

    def write_evidence(self, generators: Sequence[np.random.Generator]) -> list[str]:
        """Write one version of the evidence for each generator, which draws the documents."""
        overview = "\n".join(self._pair_overview() if self.is_pairwise else self._overview())
        log_weights = np.log(self._document_weights())
        documents = list(self.items.rows_by_document.values())
        versions = []
        for rng in generators:
            # Sorting by log weight plus Gumbel noise is a weighted draw without replacement.
            order = np.argsort(-(log_weights + rng.gumbel(size=len(documents))), kind="stable")
            text = overview
            for number, index in enumerate(order[: _n_documents_shown(documents)], start=1):
                outputs = self._select_outputs(documents[index])
                n_shown, n_outputs = len(outputs), len(documents[index])
                selection_note = f" ({n_shown} of {n_outputs})" if n_shown < n_outputs else ""
                block = f"\n\nDocument {number}{selection_note}:\n{self.document_text(outputs)}"
                if number > 1 and len(text) + len(block) > MAX_EVIDENCE_LENGTH:
                    break
                text += block
            versions.append(text)
        return versions

    def document_text(self, rows: Sequence[int]) -> str:
        """Return a document's lines: the texts that all shown outputs share, then each output's."""
        common_texts = self._common_texts(rows)
        lines = [f"{name}: {_quote(text)}" for name, text in common_texts.items()]
        for row in rows:
            judgement, item = self.judgements[row], self.items[row]
            lines.append(self._pair_line(row) if self.is_pairwise else self._rating_line(row))
            lines += [
                f"  {name}: {_quote(text)}"
                for name, text in item.texts.items()
                if name not in common_texts
            ]
            if reason := judgement.rationale:
                lines.append(f"  the judge's reason: {_quote(reason, MAX_REASON_LENGTH)}")
            if item.comment:
                lines.append(f"  people's comment: {_quote(item.comment, MAX_COMMENT_LENGTH)}")
        return "\n".join(lines)

    def _common_texts(self, rows: Sequence[int]) -> dict[str, str]:
        """Return the texts, by field name, that are the same for all of several outputs."""
        first, *others = (self.items[row].texts for row in rows)
        if not others:
            return {}
        return {
            name: text
            for name, text in first.items()
            if name not in self.output_names and all(texts.get(name) == text for texts in others)
        }

    def _document_weights(self) -> Vector:
        """Return sampling weights, larger if people's labels differ or the judge ranks wrongly."""
        human, weights = self.items.human, []
        label_sd = float(human.std()) or 1.0
        for rows in self.items.rows_by_document.values():
            centre = human.mean() if len(rows) < 3 else human[rows].mean()
            deviations = np.abs(human[rows] - (0 if self.is_pairwise else centre))
            human_spread = float(deviations.mean()) / label_sd
            error = min(1.0, float(np.abs(self.weighted_gaps[rows]).mean()))
            weights.append((0.1 + human_spread) * (RIGHT_ORDER_WEIGHT + error))
        return np.array(weights)

    def _select_outputs(self, rows: Indices) -> list[int]:
        """Choose the outputs to show, and sort them by people's labels, best first.

        After people's best and worst come those that the judge overrates, underrates and ranks
        best.
        """
        best_first = rows[np.argsort(-self.items.human[rows], kind="stable")]
        weighted_gaps, gaps = self.weighted_gaps[rows], np.abs(self.gaps[rows])
        misplaced_rows = [
            rows[np.argmax(weighted_gaps)],
            rows[np.argmin(weighted_gaps)],
            rows[np.argmin(gaps)],
        ]
        by_priority = [best_first[0], best_first[-1], *misplaced_rows, *best_first]
        selection = list(dict.fromkeys(map(int, by_priority)))[:MAX_OUTPUTS_OF_DOCUMENT]
        return sorted(selection, key=lambda row: (-self.items.human[row], row))

    def _rating_line(self, row: int) -> str:
        item, score = self.items[row], self.scores[row]
        ratings, people = sorted(item.ratings), f"- people {item.human:.3g}"
        if len(ratings) > 1:
            people += f" ({', '.join(f'{rating:g}' for rating in ratings)})"
        if np.isnan(score):
            return f"{people}; the judge gave no rating"
        if self.words:
            label, answer = (nearest_choice(self.choices, float(n)) for n in (item.human, score))
            people = f"- people {label}"
            if len(ratings) > 1:
                people += f" ({ratings.count(1)} of {len(ratings)} say {self.words[0]})"
            correctness = "right" if label == answer else "wrong"
            return f"{people}; judge {answer} ({self.words[0]} {score:.0%}): {correctness}"
        (rank, judge_rank), n = self.ranks[:, row], self.n_ranked[row]
        placement = f"placed too {'low' if judge_rank > rank else 'high'}"
        if abs(judge_rank - rank) < EQUAL_RANK_SHARE * n:
            placement = "placed rightly"
        judge = f"judge {score:.3g}, place {judge_rank:g}: {placement}"
        return f"{people}, place {rank:g} of {n:g}; {judge}"

    def _pair_line(self, row: int) -> str:
        item, judgement = self.items[row], self.judgements[row]
        vote_counts = Counter(preferred_output(vote) or "tie" for vote in item.ratings)
        votes = ", ".join(f"{n} {vote}" for vote, n in sorted(vote_counts.items()))
        line = f"- people {_preference_text(item.human)}"
        if votes:
            line += f" ({votes})"
        line += f"; judge {_preference_text(self.scores[row])}"
        if orders := _choices_by_order(judgement):
            line += f" ({orders[0]} where A stands first, {orders[1]} where B does)"
        agreement = np.sign(item.human * self.scores[row])
        return line + {1: ": right", -1: ": wrong"}.get(agreement, "")

    def _overview(self) -> Iterator[str]:
        rows = np.flatnonzero(~np.isnan(self.scores))
        yield f"The judge has rated {len(rows)} outputs that people rated."
        yield from self._share_sentence(rows)
        if not self.words:
            yield from self._order_sentence()
            return
        good, bad = self.words
        judge_passes, people_pass = self.scores[rows] > 0.5, self.items.human[rows] > 0.5
        yield (
            f"Of {np.sum(~people_pass)} that people call {bad}, the judge says {good} of "
            f"{np.sum(judge_passes & ~people_pass)}; of {np.sum(people_pass)} that people call "
            f"{good}, it says {bad} of {np.sum(~judge_passes & people_pass)}."
        )

    def _share_sentence(self, rows: Indices) -> Iterator[str]:
        """Yield the shares of ratings, unless a human label is outside the judge's scale."""
        scale = [int(choice_number(choice, self.choices)) for choice in self.choices]
        all_labels, n = self.items.human, len(rows)
        if n and min(scale) <= all_labels.min() and all_labels.max() <= max(scale):
            scores, labels = self.scores[rows].tolist(), all_labels[rows].tolist()
            judge_counts = Counter(nearest_choice(self.choices, score) for score in scores)
            people_counts = Counter(nearest_choice(self.choices, label) for label in labels)
            shares = (
                f"{choice}: {judge_counts[choice] / n:.0%} and {people_counts[choice] / n:.0%}"
                for choice in self.choices
            )
            yield (
                f"Shares of ratings, the judge's and people's (means rounded): {', '.join(shares)}."
            )

    def _order_sentence(self) -> Iterator[str]:
        level: Level = "summary" if len(self.groups) > 1 else "dataset"
        documents = self.items.document_ids
        agreement = pairwise_accuracy(self.scores, self.items.human, documents, level=level)
        if agreement.n_pairs:
            scope = "of one document " if level == "summary" else ""
            tie_share = agreement.n_ties / agreement.n_pairs
            right_share = agreement.value - tie_share / 2
            wrong_share = 1 - right_share - tie_share
            yield (
                f"Of {agreement.n_pairs} pairs of outputs {scope}that people tell apart, the judge "
                f"orders {right_share:.0%} as people do, {wrong_share:.0%} the other way, and ties "
                f"{tie_share:.0%}."
            )

    def _pair_overview(self) -> Iterator[str]:
        has_preference = self.items.human != 0
        agreement = np.sign(self.scores[has_preference]) * np.sign(self.items.human[has_preference])
        n = max(1, len(agreement))
        yield (
            f"The judge has compared {int((~np.isnan(self.scores)).sum())} pairs. Where people "
            f"prefer one, it prefers the same in {(agreement > 0).sum() / n:.0%} of pairs and the "
            f"other in {(agreement < 0).sum() / n:.0%}."
        )
        choices = list(filter(None, map(_choices_by_order, self.judgements)))
        if choices:
            is_inconsistent = [in_ab != in_ba for in_ab, in_ba in choices]
            yield (
                "Asked in both orders, it follows the place and not the text in "
                f"{np.mean(is_inconsistent):.0%} of pairs."
            )


def expected_evidence_length(items: Items) -> int:
    """Return the expected number of characters that texts and comments take up in the evidence."""
    documents = list(items.rows_by_document.values())
    n_outputs = _n_documents_shown(documents) * _mean_outputs_shown(documents)
    comment_lengths = [min(len(item.comment), MAX_COMMENT_LENGTH) for item in items]
    text_lengths = [sum(map(len, item.texts.values())) for item in items]
    length = float(np.mean(text_lengths) + np.mean(comment_lengths))
    return min(MAX_EVIDENCE_LENGTH, round(n_outputs * length))


def _mean_outputs_shown(documents: Sequence[Indices]) -> float:
    """Return the mean number of outputs of a document that the evidence shows."""
    return float(np.mean([min(len(rows), MAX_OUTPUTS_OF_DOCUMENT) for rows in documents]))


def _n_documents_shown(documents: Sequence[Indices]) -> int:
    """Return how many documents the evidence shows: more if documents have few outputs."""
    outputs = _mean_outputs_shown(documents)
    number = MAX_DOCUMENTS_SHOWN if outputs >= 3 else round(MAX_OUTPUTS_SHOWN / outputs)
    return max(1, min(number, math.ceil(MAX_SHARE_SHOWN * len(documents))))


def _quote(text: str, length: int = MAX_TEXT_LENGTH) -> str:
    """Write the text as a JSON string on one line; the middle of a long text is cut out."""
    half = length // 2
    if len(text) > length:
        text = f"{text[:half]} [...] {text[-half:]}"
    return json.dumps(text, ensure_ascii=False)


def _preference_text(margin: float) -> str:
    if np.isnan(margin):
        return "none"
    return f"{preferred_output(margin) or 'neither'} ({margin:+.2g})"


def _choices_by_order(judgement: AnyJudgement) -> tuple[str, str] | None:
    """Return the judge's choices with A first and with B first; None if either is missing."""
    if isinstance(judgement, Preference) and judgement.order_ab and judgement.order_ba:
        return judgement.order_ab, judgement.order_ba
    return None
