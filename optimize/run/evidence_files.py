"""What a run keeps for its report: every judgement on test, both prompts, and the probes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data.lines import read_json_file, read_lines
from data.types import LabelledOutput, LabelledPair
from judges.judgement import Judgement, Verdict
from judges.prompt import Prompt
from judges.tables.rows import decode_json
from optimize.audits.probes import Probes
from optimize.run.evidence import LONGEST_KIND, Evidence, Person, Said
from optimize.run.run_folder import RunFolderError, as_json, write_json, write_text
from optimize.search.items import Item, Items

JUDGEMENTS = "judgements.jsonl"
EVIDENCE = "evidence.json"
JUDGES = ("seed", "tuned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A judge's instruction and demonstrations."""

    instruction: str
    demos: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, prompt: Prompt) -> "Written":
        return cls(instruction=prompt.instruction, demos=prompt.demos)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run's evidence: `shown[judge][split]`, both prompts, the definition, and the probes."""

    definition: str
    prompts: Mapping[str, Written]
    shown: Mapping[str, Mapping[str, Evidence]]
    probes: Probes


def record(folder: Path, recorded: Recorded) -> None:
    """Write judgements.jsonl, one line an output, and evidence.json, the rest."""
    seed, tuned = (recorded.shown[name] for name in JUDGES)
    lines = [as_json(line) for split in seed for line in _lines(seed[split], tuned[split])]
    write_text(folder / JUDGEMENTS, "".join(line + "\n" for line in lines))
    one = next(iter(seed.values()))
    rest = {
        "dimension": one.dimension,
        "definition": recorded.definition,
        "level": one.level,
        "scale": list(one.scale),
        "splits": list(seed),
        "prompts": {name: asdict(prompt) for name, prompt in recorded.prompts.items()},
        "probes": recorded.probes.json(),
    }
    write_json(folder / EVIDENCE, rest)


def read(folder: Path) -> Recorded:
    """Read them back; raises RunFolderError where they are missing or damaged."""
    try:
        rest = read_json_file(folder / EVIDENCE)
        rows = [decode_json(line) for _, line in read_lines(folder / JUDGEMENTS)]
        return Recorded(
            definition=rest["definition"],
            prompts={
                name: Written(instruction=one["instruction"], demos=tuple(one["demos"]))
                for name, one in rest["prompts"].items()
            },
            shown={
                judge: {split: _evidence(rest, rows, judge, split) for split in rest["splits"]}
                for judge in JUDGES
            },
            probes=Probes.read(rest["probes"]),
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


def _lines(seed: Evidence, tuned: Evidence) -> list[dict[str, Any]]:
    people: Sequence[Person | None] = seed.people or [None] * len(seed.items)
    lines = []
    for item, person, one, other in zip(
        seed.items.items, people, seed.said, tuned.said, strict=True
    ):
        line = {
            "id": item.id,
            "split": seed.split,
            "document_id": item.document_id,
            "system": item.system,
            "texts": dict(item.texts),
            "human": item.human,
            **_labels(item, person),
            "seed": _told(one),
            "tuned": _told(other),
        }
        lines.append(line)
    return lines


def _labels(item: Item, person: Person | None) -> dict[str, Any]:
    if isinstance(person, LabelledPair):
        return {
            "votes": list(person.votes),
            "responses": [person.response_a, person.response_b],
            "systems": [person.system_a, person.system_b],
        }
    if person is None:
        return {}
    short = {
        name: text
        for name, text in person.texts.items()
        if name not in item.texts and len(text) <= LONGEST_KIND
    }
    return {
        "labels": short,
        "ratings": {name: list(marks) for name, marks in person.ratings.items()},
        "annotators": {name: list(who) for name, who in person.annotators.items()},
    }


def _told(one: Said) -> dict[str, Any]:
    """What is known of a judgement; a NaN and a None are left out."""
    return {
        name: value
        for name, value in asdict(one).items()
        if value is not None and not (isinstance(value, float) and math.isnan(value))
    }


def _evidence(
    rest: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], judge: str, split: str
) -> Evidence:
    mine = [row for row in rows if row["split"] == split]
    people = [_person(row) for row in mine]
    return Evidence(
        dimension=rest["dimension"],
        split=split,
        level=rest["level"],
        scale=tuple(rest["scale"]),
        items=Items(tuple(_item(row) for row in mine)),
        said=tuple(_said(row[judge], pair="votes" in row) for row in mine),
        people=tuple(one for one in people if one is not None),
    )


def _item(row: Mapping[str, Any]) -> Item:
    return Item(
        id=row["id"],
        document_id=row["document_id"],
        system=row["system"],
        texts=row["texts"],
        human=float(row["human"]),
    )


def _person(row: Mapping[str, Any]) -> Person | None:
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
        ratings={name: tuple(marks) for name, marks in row["ratings"].items()},
        annotators={name: tuple(who) for name, who in row["annotators"].items()},
    )


def _said(told: Mapping[str, Any], *, pair: bool) -> Said:
    if pair:
        return Verdict(**{"margin": math.nan, **told})
    one = {"score": math.nan, **told}
    if "distribution" in one:
        # JSON's keys are strings.
        one["distribution"] = {int(rating): p for rating, p in one["distribution"].items()}
    return Judgement(**one)
