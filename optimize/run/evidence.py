"""What a run keeps for its report: every judgement on test, both prompts, and the probes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data.columns import OUTPUTS
from data.tables.formats import read_json_lines
from data.tables.text import read_json_file
from data.types import LabelledOutput, LabelledPair, LabelledPairs, LabelledSet
from judges.judgement import AnyJudgement, Judgement, Verdict
from judges.winrate import text_length
from optimize.injection import Probes, output_name
from optimize.items import Indices, Item, Items, Vector
from optimize.run.run_folder import RunFolderError, write_json, write_text
from optimize.search.objective import Level
from optimize.search.trial_log import as_json
from optimize.statistics.coefficients import midranks

JUDGEMENTS = "judgements.jsonl"
EVIDENCE = "evidence.json"
JUDGES = ("seed", "tuned")
AnyLabelled = LabelledOutput | LabelledPair
# A column that says what kind of system wrote an output has few values, and short ones.
MAX_CATEGORIES = 6
MAX_CATEGORY_LENGTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSplit:
    """One judgement or verdict an item, in the order of `items`.

    `scale` is the judge's, empty where unknown and for pairs. `labelled` holds the labelled outputs
    or pairs themselves, in the same order, where they are known.
    """

    dimension: str
    split: str
    level: Level
    items: Items
    judgements: tuple[AnyJudgement, ...]
    scale: tuple[int, ...] = ()
    labelled: tuple[AnyLabelled, ...] = ()
    scores: Vector = field(init=False)

    def __post_init__(self) -> None:
        scores = np.array([judgement.score for judgement in self.judgements], float)
        object.__setattr__(self, "scores", scores)

    @property
    def human(self) -> Vector:
        return self.items.human

    @property
    def documents(self) -> list[str]:
        return self.items.document_ids

    @property
    def systems(self) -> list[str]:
        return self.items.system_ids

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.judgements if isinstance(verdict, Verdict))

    @property
    def ranked_rows(self) -> list[Indices]:
        """The rows that are ranked among each other: a document's at summary level, else all."""
        if self.level == "summary":
            return list(self.items.places.values())
        return [np.arange(len(self.items))]

    @property
    def failures(self) -> dict[str, str]:
        """Why each output without a score has none, by id."""
        return {
            item.id: judgement.failure or "no reason was recorded"
            for item, judgement, score in zip(
                self.items.items, self.judgements, self.scores, strict=True
            )
            if np.isnan(score)
        }

    @property
    def outputs(self) -> tuple[LabelledOutput, ...]:
        return tuple(output for output in self.labelled if isinstance(output, LabelledOutput))

    @property
    def within_scale(self) -> bool:
        """Whether judge and people keep to the judge's scale, so that numbers can be compared."""
        both = np.concatenate([self.human, self.scores[~np.isnan(self.scores)]])
        if not self.scale or not both.size:
            return False
        return bool(self.scale[0] <= both.min() and both.max() <= self.scale[-1])

    def comment(self, index: int) -> str:
        """What the judge wrote beside its score."""
        judgement = self.judgements[index]
        if isinstance(judgement, Verdict):
            return judgement.comparison or ""
        return judgement.rationale or ""

    def texts(self, index: int) -> Mapping[str, str]:
        """What the judge read; where a recording does not say, all that the labels hold."""
        texts = self.items.items[index].texts
        if texts or len(self.labelled) != len(self.items):
            return texts
        labelled = self.labelled[index]
        if isinstance(labelled, LabelledPair):
            return {**labelled.texts, "A": labelled.response_a, "B": labelled.response_b}
        return labelled.texts

    def lengths(self) -> Vector | None:
        """Characters of each output; None where its text is not known."""
        lengths = []
        for index in range(len(self.items)):
            texts = self.texts(index)
            name = output_name(tuple(texts))
            if name is None:
                return None
            lengths.append(text_length(texts[name]))
        return np.array(lengths, float)

    def pair_lengths(self) -> list[tuple[int, int]] | None:
        """Characters of A and of B."""
        pairs = [pair for pair in self.labelled if isinstance(pair, LabelledPair)]
        if len(pairs) != len(self.items):
            return None
        return [(text_length(pair.response_a), text_length(pair.response_b)) for pair in pairs]

    def kinds(self) -> dict[str, tuple[str, ...]]:
        """Columns of few short values, unread by the judge, that differ within a document."""
        if not self.outputs:
            return {}
        read = {name for item in self.items.items for name in item.texts}
        names = {name for output in self.outputs for name in output.texts} - read - set(OUTPUTS)
        kinds = {}
        for name in sorted(names):
            values = tuple(output.texts.get(name, "") for output in self.outputs)
            if len(set(values)) > MAX_CATEGORIES or max(map(len, values)) > MAX_CATEGORY_LENGTH:
                continue
            if any(len({values[i] for i in rows}) > 1 for rows in self.items.places.values()):
                kinds[name] = values
        return kinds


def labelled_in_order(
    labelled: LabelledSet | LabelledPairs, items: Items
) -> tuple[AnyLabelled, ...]:
    """The labelled outputs or pairs of the items, in the items' order; unknown ids are left out."""
    labels = labelled.pairs if isinstance(labelled, LabelledPairs) else labelled.outputs
    known: Mapping[str, AnyLabelled] = {label.id: label for label in labels}
    return tuple(known[item.id] for item in items.items if item.id in known)


def disagreements(judged: JudgedSplit) -> list[tuple[int, float]]:
    """Where the judge's place is farthest from people's: (index, gap), farthest first.

    Gaps are differences of mid-ranks scaled to [-1, 1], within the document at summary level and
    over the whole split otherwise; above 0 the judge ranks the output higher than people do. Of
    pairs it is half the difference of the margins.
    """
    gaps = np.full(len(judged.items), np.nan)
    if judged.verdicts:
        gaps = (judged.scores - judged.human) / 2
    for rows in [] if judged.verdicts else judged.ranked_rows:
        scored = rows[~np.isnan(judged.scores[rows])]
        if scored.size < 2:
            continue
        ranks = midranks(np.stack([judged.scores[scored], judged.human[scored]]))
        gaps[scored] = (ranks[0] - ranks[1]) / (scored.size - 1)
    order = np.argsort(-np.abs(gaps), kind="stable")
    return [(int(i), float(gaps[i])) for i in order if not np.isnan(gaps[i]) and gaps[i] != 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """A judge's instruction and demonstrations, and what it is told of each field it writes."""

    instruction: str
    demos: tuple[Mapping[str, Any], ...]
    writes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """`judged[judge][split]` for "seed" and "tuned", both prompts, the definition, the probes."""

    definition: str
    prompts: Mapping[str, PromptParts]
    judged: Mapping[str, Mapping[str, JudgedSplit]]
    probes: Probes


def write_evidence(folder: Path, evidence: RunEvidence) -> None:
    """Write judgements.jsonl, one line an output, and evidence.json, the rest."""
    seed, tuned = (evidence.judged[name] for name in JUDGES)
    lines = [as_json(line) for split in seed for line in _lines(seed[split], tuned[split])]
    write_text(folder / JUDGEMENTS, "".join(line + "\n" for line in lines))
    first = next(iter(seed.values()))
    rest = {
        "dimension": first.dimension,
        "definition": evidence.definition,
        "level": first.level,
        "scale": list(first.scale),
        "splits": list(seed),
        "prompts": {name: asdict(prompt) for name, prompt in evidence.prompts.items()},
        "probes": evidence.probes.to_json(),
    }
    write_json(folder / EVIDENCE, rest)


def read_evidence(folder: Path) -> RunEvidence:
    """Read them back; raises RunFolderError where they are missing or damaged."""
    try:
        rest = read_json_file(folder / EVIDENCE)
        rows = [row.cells for row in read_json_lines(folder / JUDGEMENTS)]
        return RunEvidence(
            definition=rest["definition"],
            prompts={
                name: PromptParts(
                    instruction=prompt["instruction"],
                    demos=tuple(prompt["demos"]),
                    writes=prompt.get("writes", {}),  # of earlier releases
                )
                for name, prompt in rest["prompts"].items()
            },
            judged={
                judge: {split: _judged_split(rest, rows, judge, split) for split in rest["splits"]}
                for judge in JUDGES
            },
            probes=Probes.from_json(rest["probes"]),
        )
    except FileNotFoundError as error:
        raise RunFolderError(
            f"{folder}: holds no {Path(error.filename).name}; a run folder has one once its run "
            "has ended"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunFolderError(
            f"{folder}: {EVIDENCE} or {JUDGEMENTS} is damaged ({error!r})"
        ) from error


def _lines(seed: JudgedSplit, tuned: JudgedSplit) -> list[dict[str, Any]]:
    """A line for each item of a split: its labels and both judges' judgements."""
    labelled: Sequence[AnyLabelled | None] = seed.labelled or [None] * len(seed.items)
    return [
        {
            "id": item.id,
            "split": seed.split,
            "document_id": item.document_id,
            "system": item.system,
            "texts": item.texts,
            "human": item.human,
            **_label_fields(item, label),
            "seed": _judgement_fields(by_seed),
            "tuned": _judgement_fields(by_tuned),
        }
        for item, label, by_seed, by_tuned in zip(
            seed.items.items, labelled, seed.judgements, tuned.judgements, strict=True
        )
    ]


def _label_fields(item: Item, label: AnyLabelled | None) -> dict[str, Any]:
    """What a line holds of the labels: votes of a pair, ratings and short texts of an output."""
    if label is None:
        return {}
    if isinstance(label, LabelledPair):
        return {
            "votes": label.votes,
            "responses": [label.response_a, label.response_b],
            "systems": [label.system_a, label.system_b],
        }
    short = {
        name: text
        for name, text in label.texts.items()
        if name not in item.texts and len(text) <= MAX_CATEGORY_LENGTH
    }
    return {
        "labels": short,
        "ratings": dict(label.ratings),
        "annotators": dict(label.annotators),
    }


def _judgement_fields(judgement: AnyJudgement) -> dict[str, Any]:
    """What is known of a judgement; a NaN and a None are left out."""
    return {
        name: value
        for name, value in asdict(judgement).items()
        if value is not None and not (isinstance(value, float) and math.isnan(value))
    }


def _judged_split(
    rest: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], judge: str, split: str
) -> JudgedSplit:
    """One judge's part of one split, from the lines that `_lines` makes."""
    rows = [row for row in rows if row["split"] == split]
    items = [
        Item(
            id=row["id"],
            document_id=row["document_id"],
            system=row["system"],
            texts=row["texts"],
            human=float(row["human"]),
        )
        for row in rows
    ]
    labelled = [_labelled(row) for row in rows]
    return JudgedSplit(
        dimension=rest["dimension"],
        split=split,
        level=rest["level"],
        scale=tuple(rest["scale"]),
        items=Items(tuple(items)),
        judgements=tuple(_judgement(row[judge], pair="votes" in row) for row in rows),
        labelled=tuple(label for label in labelled if label is not None),
    )


def _labelled(row: Mapping[str, Any]) -> AnyLabelled | None:
    """The labelled output or pair of a line; None where it holds no labels."""
    if "votes" in row:
        return LabelledPair(
            id=row["id"],
            document_id=row["document_id"],
            texts={},
            response_a=row["responses"][0],
            response_b=row["responses"][1],
            system_a=row["systems"][0],
            system_b=row["systems"][1],
            votes=tuple(row["votes"]),
        )
    if "ratings" not in row:
        return None
    return LabelledOutput(
        id=row["id"],
        document_id=row["document_id"],
        system=row["system"],
        texts={**row["labels"], **row["texts"]},
        ratings={name: tuple(ratings) for name, ratings in row["ratings"].items()},
        annotators={name: tuple(names) for name, names in row["annotators"].items()},
    )


def _judgement(fields: Mapping[str, Any], *, pair: bool) -> AnyJudgement:
    """The judgement of a line; NaN for a score or margin that it lacks."""
    if pair:
        return Verdict(**{"margin": math.nan, **fields})
    fields = {"score": math.nan, **fields}
    if "distribution" in fields:
        # JSON's keys are strings.
        fields["distribution"] = {int(rating): p for rating, p in fields["distribution"].items()}
    return Judgement(**fields)
