"""Evidence: the part of the proposer's prompt that shows how people and the judge rate documents.

For each output of a document, the evidence shows people's ratings and the judge's score, and the
output's rank by each of them, which the proposer knows as its "place". Texts are quoted as JSON
strings on one line, so that no text can be mistaken for a line of the evidence.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from judges.judgement import AnyJudgement, Preference, preferred_output
from judges.prompt import Prompt
from optimize.items import Indices, Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Evaluator
from optimize.statistics.balanced import PASS_THRESHOLD
from optimize.statistics.coefficients import midranks
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Vector
from optimize.statistics.plain_agreement import pairwise_accuracy
from optimize.statistics.rows import scored_rows

# Upper bounds on the documents that the evidence shows, and on the outputs of each document.
MAX_DOCUMENTS_SHOWN, MAX_OUTPUTS_OF_DOCUMENT = 12, 5
MAX_OUTPUTS_SHOWN = 36  # of all documents together, if they have fewer than three outputs each
MAX_SHARE_SHOWN = 2 / 3  # of all documents, so that different prompts show different documents
# Upper bounds on the characters of the evidence, and of one text, reason or comment in it.
MAX_EVIDENCE_LENGTH, MAX_TEXT_LENGTH = 60_000, 2400
MAX_REASON_LENGTH, MAX_COMMENT_LENGTH = 300, 1200
# A document's sampling weight is proportional to this number plus the judge's error on the document
# (at most 1). So documents that the judge ranks rightly are drawn, too.
RIGHT_ORDER_WEIGHT = 0.35
COMMENT_WEIGHT = 2  # how many times the judge's error on an output with a comment counts
EQUAL_RANK_SHARE = 0.05  # of the ranked outputs; ranks that differ by less count as equal


class JudgedItems:
    """Items and the judgements of one judge on these items, in the same order.

    Outputs are ranked within their documents. But pairs and verdicts are ranked over all documents,
    and so are ratings if no document has three outputs. `ranks` has a row by people's labels and a
    row by the judge's scores; rank 1 is the best. `overratings` has how far the judge overrates
    each output, in standard deviations of ranks; for pairs, its margin minus people's.
    """

    def __init__(self, items: Items, judgements: Sequence[AnyJudgement], prompt: Prompt) -> None:
        self.items, self.judgements = items, judgements
        self.scores: Vector = np.array([judgement.score for judgement in judgements], float)
        self.answer_field = prompt.answer_field
        self.is_pairwise = self.answer_field.is_pairwise
        self.verdict_words = self.answer_field.verdict_words
        # Each pair is shown with both outputs, even if all pairs of a document share an output.
        output_fields = prompt.input_fields[-2:] if self.is_pairwise else ()
        self.output_names = {field.name for field in output_fields}
        rows_ranked_together = list(items.rows_by_document.values())
        has_long_documents = any(len(rows) >= 3 for rows in rows_ranked_together)
        has_ratings = not (self.is_pairwise or self.verdict_words)
        self.ranks_within_documents = has_long_documents and has_ratings
        if not self.ranks_within_documents:
            rows_ranked_together = [np.arange(len(items))]
        self.ranks, self.n_ranked = np.full((2, len(items)), np.nan), np.ones(len(items))
        for rows in rows_ranked_together:
            rows = rows[~np.isnan(self.scores[rows])]
            self.n_ranked[rows] = len(rows)
            self.ranks[:, rows] = midranks(-np.array([items.human, self.scores])[:, rows])
        overratings = self.scores - items.human
        if not self.is_pairwise:
            overratings = (self.ranks[0] - self.ranks[1]) * math.sqrt(12) / self.n_ranked
        self.overratings: Vector = np.nan_to_num(overratings)
        weights = [COMMENT_WEIGHT if item.comment else 1 for item in items]
        self.weighted_overratings: Vector = self.overratings * weights

    def write_evidence(self, rngs: Sequence[np.random.Generator]) -> list[str]:
        """Return one text of evidence for each generator, which draws the text's documents."""
        overview = "\n".join(self._pair_overview() if self.is_pairwise else self._overview())
        log_weights = np.log(self._document_weights())
        document_rows = list(self.items.rows_by_document.values())
        n_documents, evidence_texts = _shown_counts(document_rows)[0], list[str]()
        for rng in rngs:
            # Sorting by log weight plus Gumbel noise is a weighted draw without replacement.
            noisy_weights = log_weights + rng.gumbel(size=len(document_rows))
            drawn_indices, text = np.argsort(-noisy_weights, kind="stable"), overview
            for position, index in enumerate(drawn_indices[:n_documents], start=1):
                all_rows = document_rows[index]
                rows, n_outputs = self._select_outputs(all_rows), len(all_rows)
                selection_note = f" ({len(rows)} of {n_outputs})" if len(rows) < n_outputs else ""
                document_text = f"Document {position}{selection_note}:\n{self.outputs_text(rows)}"
                if position > 1 and len(text) + len(document_text) + 2 > MAX_EVIDENCE_LENGTH:
                    break
                text += f"\n\n{document_text}"
            evidence_texts.append(text)
        return evidence_texts

    def outputs_text(self, rows: Sequence[int]) -> str:
        """Return the lines on outputs of one document; texts that all outputs share come first."""
        items = [self.items[row] for row in rows]
        shared_texts = self._shared_texts(items)
        lines = [f"{name}: {_quote(text)}" for name, text in shared_texts.items()]
        for row, item in zip(rows, items, strict=True):
            lines.append(self._pair_line(row) if self.is_pairwise else self._rating_line(row))
            for name, text in item.texts.items():
                if name not in shared_texts:
                    lines.append(f"  {name}: {_quote(text)}")
            if reason := self.judgements[row].rationale:
                lines.append(f"  the judge's reason: {_quote(reason, MAX_REASON_LENGTH)}")
            if item.comment:
                lines.append(f"  people's comment: {_quote(item.comment, MAX_COMMENT_LENGTH)}")
        return "\n".join(lines)

    def _shared_texts(self, items: Sequence[Item]) -> dict[str, str]:
        """Return the texts that several items have in common, by name; none for one item."""
        if len(items) == 1:
            return {}
        common_texts = set.intersection(*(set(item.texts.items()) for item in items))
        first_texts = items[0].texts.items()
        return {
            name: text
            for name, text in first_texts
            if (name, text) in common_texts and name not in self.output_names
        }

    def _document_weights(self) -> Vector:
        """Return documents' sampling weights: large if labels differ or the judge is wrong."""
        human = self.items.human
        label_sd = float(human.std()) or 1.0
        weights = []
        for rows in self.items.rows_by_document.values():
            mean_label = human.mean() if len(rows) < 3 else human[rows].mean()
            deviations = np.abs(human[rows] - (0 if self.is_pairwise else mean_label))
            label_spread = float(deviations.mean()) / label_sd
            judge_error = min(1.0, float(np.abs(self.weighted_overratings[rows]).mean()))
            weights.append((0.1 + label_spread) * (RIGHT_ORDER_WEIGHT + judge_error))
        return np.array(weights)

    def _select_outputs(self, rows: Indices) -> list[int]:
        """Choose which outputs of a document the evidence shows, and sort them by labels.

        People's best and worst output are always chosen, and so are the outputs that the judge
        overrates most, underrates most, and ranks with the smallest error.
        """
        overratings = self.weighted_overratings[rows]
        smallest_error_index = np.abs(self.overratings[rows]).argmin()
        extreme_rows = rows[[overratings.argmax(), overratings.argmin(), smallest_error_index]]
        sorted_rows = rows[np.argsort(-self.items.human[rows], kind="stable")]
        rows_by_priority = [sorted_rows[0], sorted_rows[-1], *extreme_rows, *sorted_rows]
        rows_shown = list(dict.fromkeys(map(int, rows_by_priority)))[:MAX_OUTPUTS_OF_DOCUMENT]
        return sorted(rows_shown, key=lambda row: (-self.items.human[row], row))

    def _rating_line(self, row: int) -> str:
        item, score = self.items[row], float(self.scores[row])
        people_text = f"- people {item.human:.3g}"
        if len(item.ratings) > 1:
            people_text += f" ({', '.join(f'{rating:g}' for rating in sorted(item.ratings))})"
        if math.isnan(score):
            return f"{people_text}; the judge gave no rating"
        if self.verdict_words:
            return self._verdict_line(item, score)
        (people_rank, judge_rank), n_ranked = self.ranks[:, row], self.n_ranked[row]
        placement = "too low" if judge_rank > people_rank else "too high"
        if abs(judge_rank - people_rank) < EQUAL_RANK_SHARE * n_ranked:
            placement = "rightly"
        judge_text = f"judge {score:.3g}, place {judge_rank:g}: placed {placement}"
        return f"{people_text}, place {people_rank:g} of {n_ranked:g}; {judge_text}"

    def _verdict_line(self, item: Item, score: float) -> str:
        good_word, nearest_choice = self.verdict_words[0], self.answer_field.nearest_choice
        people_verdict, judge_verdict = nearest_choice(item.human), nearest_choice(score)
        people_text = f"- people {people_verdict}"
        if len(item.ratings) > 1:
            people_text += f" ({item.ratings.count(1)} of {len(item.ratings)} say {good_word})"
        correctness = "right" if people_verdict == judge_verdict else "wrong"
        return f"{people_text}; judge {judge_verdict} ({good_word} {score:.0%}): {correctness}"

    def _pair_line(self, row: int) -> str:
        item = self.items[row]
        vote_counts = Counter(preferred_output(vote) or "tie" for vote in item.ratings)
        votes_text = ", ".join(f"{n} {vote}" for vote, n in sorted(vote_counts.items()))
        line = f"- people {_preference_text(item.human)}"
        line += f" ({votes_text})" if votes_text else ""
        line += f"; judge {_preference_text(self.scores[row])}"
        if order_choices := _choices_by_order(self.judgements[row]):
            line += " ({} where A stands first, {} where B does)".format(*order_choices)
        agreement_sign = np.sign(item.human * self.scores[row])
        return line + {1: ": right", -1: ": wrong"}.get(agreement_sign, "")

    def _overview(self) -> Iterator[str]:
        """Yield sentences on how often each rating is given, and how often the judge is wrong."""
        judged_rows = np.flatnonzero(~np.isnan(self.scores))
        yield f"The judge has rated {len(judged_rows)} outputs that people rated."
        lowest, highest = self.answer_field.answer_range
        human = self.items.human
        # Labels outside the judge's scale cannot be compared with its ratings.
        if judged_rows.size and lowest <= human.min() and human.max() <= highest:
            yield self._share_sentence(judged_rows)
        if not self.verdict_words:
            yield from self._order_sentence()
            return
        good_word, bad_word = self.verdict_words
        judge_passes = self.scores[judged_rows] >= PASS_THRESHOLD
        people_pass = human[judged_rows] >= PASS_THRESHOLD
        yield (
            f"Of {np.sum(~people_pass)} that people call {bad_word}, the judge says {good_word} of "
            f"{np.sum(judge_passes & ~people_pass)}; of {np.sum(people_pass)} that people call "
            f"{good_word}, it says {bad_word} of {np.sum(~judge_passes & people_pass)}."
        )

    def _share_sentence(self, rows: Indices) -> str:
        scores, labels = self.scores[rows].tolist(), self.items.human[rows].tolist()
        judge_counts = Counter(map(self.answer_field.nearest_choice, scores))
        people_counts = Counter(map(self.answer_field.nearest_choice, labels))
        n = len(rows)
        shares = [
            f"{choice}: {judge_counts[choice] / n:.0%} and {people_counts[choice] / n:.0%}"
            for choice in self.answer_field.allowed_values
        ]
        return f"Shares of ratings, the judge's and people's (means rounded): {', '.join(shares)}."

    def _order_sentence(self) -> Iterator[str]:
        level: Level = "summary" if self.ranks_within_documents else "dataset"
        rows = scored_rows(self.scores, self.items.human, self.items.document_ids)
        agreement = pairwise_accuracy(rows, level=level)
        if agreement.n_pairs:
            scope_text = "of one document " if level == "summary" else ""
            tie_share = agreement.n_ties / agreement.n_pairs
            right_share = agreement.value - tie_share / 2
            wrong_share = 1 - right_share - tie_share
            yield (
                f"Of {agreement.n_pairs} pairs of outputs {scope_text}that people tell apart, the "
                f"judge orders {right_share:.0%} as people do, {wrong_share:.0%} the other way, "
                f"and ties {tie_share:.0%}."
            )

    def _pair_overview(self) -> Iterator[str]:
        agreement = self.scores * self.items.human  # 0 if people prefer neither output
        n_judged = np.count_nonzero(~np.isnan(self.scores))
        n_preferences = len(np.flatnonzero(self.items.human)) or 1
        yield (
            f"The judge has compared {n_judged} pairs. Where people prefer one, it prefers the "
            f"same in {np.sum(agreement > 0) / n_preferences:.0%} of pairs and the other in "
            f"{np.sum(agreement < 0) / n_preferences:.0%}."
        )
        if choice_pairs := list(filter(None, map(_choices_by_order, self.judgements))):
            is_inconsistent = [choice_ab != choice_ba for choice_ab, choice_ba in choice_pairs]
            yield (
                "Asked in both orders, it follows the place and not the text in "
                f"{np.mean(is_inconsistent):.0%} of pairs."
            )


def write_evidence(
    evaluator: Evaluator, candidate: Candidate, items: Items, rngs: Sequence[np.random.Generator]
) -> list[str]:
    """Return texts of evidence, one for each generator, on items that the candidate has scored."""
    items = evaluator.scored_items(candidate, items)
    judgements = evaluator.judgements(candidate, items)
    return JudgedItems(items, judgements, evaluator.untuned_prompt).write_evidence(rngs)


def expected_evidence_length(items: Items) -> int:
    """Return the expected number of characters that texts and comments take up in the evidence."""
    n_documents, mean_outputs = _shown_counts(list(items.rows_by_document.values()))
    comment_lengths = [min(len(item.comment), MAX_COMMENT_LENGTH) for item in items]
    text_lengths = [sum(map(len, item.texts.values())) for item in items]
    output_length = float(np.mean(text_lengths) + np.mean(comment_lengths))
    return min(MAX_EVIDENCE_LENGTH, round(n_documents * mean_outputs * output_length))


def _shown_counts(document_rows: Sequence[Indices]) -> tuple[int, float]:
    output_counts = [min(len(rows), MAX_OUTPUTS_OF_DOCUMENT) for rows in document_rows]
    mean_outputs, n_documents = float(np.mean(output_counts)), MAX_DOCUMENTS_SHOWN
    if mean_outputs < 3:
        n_documents = round(MAX_OUTPUTS_SHOWN / mean_outputs)
    max_documents = max(1, math.ceil(MAX_SHARE_SHOWN * len(document_rows)))
    return min(n_documents, max_documents), mean_outputs


def _quote(text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Write the text as a JSON string on one line; the middle of a long text is cut out."""
    n_kept = max_length // 2
    if len(text) > max_length:
        text = f"{text[:n_kept]} [...] {text[-n_kept:]}"
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
