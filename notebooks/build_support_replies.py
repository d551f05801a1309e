"""Build support_replies.csv from support_tickets.yaml: replies by habit, ratings by rule.

`python notebooks/build_support_replies.py` checks the shipped file, `--write` makes it anew.
"""

import csv
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

HERE = Path(__file__).parent
TICKETS, REPLIES = HERE / "support_tickets.yaml", HERE / "support_replies.csv"
COLUMNS = ("id", "group", "system", "question", "help_page", "reply")
ANNOTATORS = ("annotator_1", "annotator_2", "annotator_3")
FEWEST_MARK, MOST_MARK = 1, 5

OPENINGS = (
    "Thank you so much for getting in touch with us today.",
    "We are very sorry for any trouble this may have caused you.",
    "It is always a pleasure to hear from our readers.",
    "Your question is important to us.",
)
CLOSINGS = (
    "Please do not hesitate to contact us again at any time.",
    "Your satisfaction is our first concern.",
    "Have a wonderful day and happy reading!",
    "We look forward to welcoming you soon.",
)
VAGUE = (
    "Please have a look at our website, where you will find everything you need.",
    "This depends on a number of things that differ from case to case.",
    "Our staff will be happy to explain the details.",
)


@dataclass(frozen=True)
class Habits:
    """What a reply system tends to do; shares are probabilities, `steps` how many it tells."""

    steps: tuple[int, ...]
    wrong: float = 0.0
    side: float = 0.0
    stock: int = 0
    vague: float = 0.0
    repeat: float = 0.0
    reverse: float = 0.0


SYSTEMS: Mapping[str, Habits] = {
    "aster": Habits(steps=(3, 3, 3, 2), side=0.1),
    "birch": Habits(steps=(3, 2, 2), stock=1, side=0.2),
    "cedar": Habits(steps=(3, 3, 2), stock=3, repeat=0.3),
    "daisy": Habits(steps=(2, 1), side=0.1),
    "elder": Habits(steps=(3, 2, 3), wrong=0.7, side=0.1),
    "fern": Habits(steps=(1, 1, 0), stock=2, vague=0.6),
    "grape": Habits(steps=(3, 2), side=0.8, reverse=0.5, repeat=0.4),
    "hazel": Habits(steps=(2, 1, 2), wrong=0.3, stock=1, vague=0.3),
}


@dataclass(frozen=True)
class Annotator:
    """How a simulated annotator departs from the rule: severity by fault, and unsteadiness."""

    mild: float
    stock: float
    wrong: float
    noise: float
    skips: float = 0.0


PEOPLE: Mapping[str, Annotator] = {
    "annotator_1": Annotator(mild=0.0, stock=0.7, wrong=1.6, noise=0.35),
    "annotator_2": Annotator(mild=0.4, stock=0.5, wrong=1.2, noise=0.5),
    "annotator_3": Annotator(mild=-0.3, stock=0.9, wrong=2.0, noise=0.6, skips=0.1),
}


@dataclass
class Reply:
    """A reply's sentences, and what was done to it."""

    sentences: list[str] = field(default_factory=list)
    told: int = 0
    wrong: int = 0
    padding: int = 0
    side: int = 0
    repeated: int = 0
    reversed: int = 0


def compose(ticket: Mapping[str, Any], system: str) -> Reply:
    """Write one system's reply to one ticket."""
    draw, habits, made = Random(f"{ticket['id']}/{system}"), SYSTEMS[system], Reply()
    number = draw.choice(habits.steps)
    chosen = sorted(draw.sample(range(3), number))
    (place, falsehood), *_ = ticket["wrong"].items()
    false = place in chosen and draw.random() < habits.wrong
    steps = [falsehood if false and n == place else ticket["steps"][n] for n in chosen]
    made.told, made.wrong = number - false, int(false)
    if number > 1 and draw.random() < habits.reverse:
        steps.reverse()
        made.reversed = 1
    if steps and draw.random() < habits.repeat:
        steps.append(steps[0])
        made.repeated = 1
    if draw.random() < habits.side:
        steps.insert(draw.randrange(len(steps) + 1), ticket["side"])
        made.side = 1
    if not steps or draw.random() < habits.vague:
        steps.append(draw.choice(VAGUE))
        made.padding += 1
    first = draw.sample(OPENINGS, (habits.stock + 1) // 2)
    last = draw.sample(CLOSINGS, habits.stock // 2)
    made.padding += len(first) + len(last)
    made.sentences = [*first, *steps, *last]
    return made


def rate(reply: Reply, name: str, key: str) -> int | None:
    """Give one simulated annotator's mark by rule, never by reading; None where they skip it."""
    annotator, draw = PEOPLE[name], Random(f"{key}/{name}")
    if draw.random() < annotator.skips:
        return None
    value = 1 + 4 * reply.told / 3 + annotator.mild - annotator.wrong * reply.wrong
    value -= annotator.stock * reply.padding + 0.4 * (reply.side + reply.repeated + reply.reversed)
    return min(MOST_MARK, max(FEWEST_MARK, round(value + draw.gauss(0, annotator.noise))))


def rows() -> Iterator[dict[str, object]]:
    """Every row, tickets in the order of the file."""
    for ticket in yaml.safe_load(TICKETS.read_text(encoding="utf-8")):
        for system in SYSTEMS:
            key, reply = f"{ticket['id']}/{system}", compose(ticket, system)
            texts = (ticket["question"], " ".join(ticket["page"]), " ".join(reply.sentences))
            marks = {name: rate(reply, name, key) for name in ANNOTATORS}
            named = zip(COLUMNS, (key, ticket["id"], system, *texts), strict=True)
            yield {**dict(named), **marks}


def build() -> str:
    """Return the whole file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*COLUMNS, *ANNOTATORS], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows())
    return out.getvalue()


def main() -> int:
    """Check the shipped file, or write it."""
    if "--write" in sys.argv[1:]:
        REPLIES.write_text(build(), encoding="utf-8")
        return 0
    same = REPLIES.read_text(encoding="utf-8") == build()
    print(f"{REPLIES.name} {'is' if same else 'is not'} what {TICKETS.name} makes")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
