"""The first dollar of a new user, beside thirty lines of DSPy: python benchmarks/first_dollar.py.

A sheet of 220 replies of a support bot is tuned on simulated models by `dspy-judges tune` and by
dspy.GEPA with the same labels and as many dollars. Printed is the balanced accuracy of what each
hands over, on 400 rows that nobody learned from, and what the server billed. Arms: `untuned`;
`ours` (no limit), `ours-1`, `ours-5` (--max-cost); `gepa-equal` (the dollars of `ours`, which is
run first), `gepa-1`, `gepa-light` (auto="light").
"""

import itertools
import json
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
from simulated_models import ITEM, Messages, Reading, SimulatedJudge, SimulatedProposer, times_named
from simulated_server import JUDGE_MODEL, MODELS, SimulatedServer, serving
from simulated_worlds import QUALITIES, JudgeTraits, Vector, World, thresholds
from tuning_runs import ROOT, Line, collect, parser_of_runs, run_python, tune, with_error

import judges
from optimize.statistics.balanced import balanced_accuracy, verdicts

ARMS = ("untuned", "ours", "gepa-equal", "ours-1", "gepa-1", "ours-5", "gepa-light")
FAILS = 0.25
LENIENT = JudgeTraits(wording=0.7, demos=0.3, error=0.15, crowding=0.5)
RULE = re.compile(r"(?:above all|also): ([^.\n]+)\.")
STRICT = "When in doubt, say fail."
# How much a quality that the present instruction names stays in the next one.
KEPT = 4.0


@dataclass(frozen=True, kw_only=True)
class SupportBot(World):
    """Replies that people pass or fail; a third of what they go by stands in critiques alone."""

    name: str = "support bot"
    judge: JudgeTraits = LENIENT
    n_documents: int = 220
    n_systems: int = 1
    n_fresh_documents: int = 400
    words: tuple[int, int] = (60, 160)
    people_error: float = 0.15
    n_annotators: int = 1
    two_values: bool = True
    top_share: float = 1 - FAILS / 0.4

    @cached_property
    def own_weights(self) -> Vector:
        weights = super().own_weights + 0.7 * self.true_weights
        return weights / np.linalg.norm(weights)

    def critique(self, item: int) -> str:
        """The quality that has moved the gold most; most fails have a critique, and few passes."""
        if self.rng("has critique", item).random() >= (0.3 if self.human[item] else 0.8):
            return ""
        moved = self.qualities[item] * self.true_weights
        quality = int(np.argmax(np.abs(moved)))
        word = QUALITIES[quality][int(self.rng("critique", item).integers(3))]
        return f"What {'speaks for' if moved[quality] > 0 else 'is wrong with'} it: {word}."

    def texts(self, item: int) -> dict[str, str]:
        question, reply = self.words
        return {
            "input": f"Customer {item}. {self.prose('input', item, question)}",
            "output": f"Item {item}: {self.prose('output', item, reply)}",
        }

    @property
    def definition(self) -> str:
        """A line that names the two main qualities, as a user would who knows them."""
        first, second = (QUALITIES[index][0] for index in np.argsort(-self.true_weights)[:2])
        return (
            "how well the reply serves the customer. "
            f"Attend to this above all: {first}. Consider also: {second}. {STRICT}"
        )

    def row(self, item: int) -> dict[str, Any]:
        label = "pass" if self.human[item] else "fail"
        return {"id": item, **self.texts(item), "label": label, "critique": self.critique(item)}


class LenientJudge(SimulatedJudge):
    """Passes too much, unless its instruction is strict."""

    def _read(self, messages: Messages, digest: bytes) -> Reading:
        reading = super()._read(messages, digest)
        if STRICT in messages[0]["content"]:
            reading = replace(reading, edges=thresholds(self.world.top_share))
        return reading


class KeepingProposer(SimulatedProposer):
    """Keeps some of what the present instruction names; gets strict where people complain."""

    skill = 0.8

    def reply(self, messages: Messages, draw: int = 0) -> str:
        text = "\n".join(m["content"] for m in messages)
        rng = np.random.default_rng([draw, len(text)])
        complaints, praise = (
            text.count(f"What {kind} it") for kind in ("is wrong with", "speaks for")
        )
        is_strict = STRICT in present_instruction(text) or (
            complaints > 0 and complaints >= praise and rng.random() < 0.7
        )
        written = super().reply(messages, draw)
        return written.replace("Use the whole scale.", STRICT) if is_strict else written

    def _prior(self, text: str) -> Vector:
        named = times_named(RULE.findall(present_instruction(text)))
        return np.asarray(KEPT * np.minimum(1, named))


def present_instruction(text: str) -> str:
    """What precedes the first output of the evidence, in whatever words a prompt presents it."""
    evidence = ITEM.search(text)
    return text[: evidence.start()] if evidence else text


def run(
    arm: str, seed: int, definition: bool, qualities: int, ours: Mapping[Any, Line] | None = None
) -> Line:
    """What one arm hands over, as a new user would run it, where `ours` has the lines of that arm.

    dspy.GEPA learns from the labels that `ours` has learned from; `gepa-equal` spends as much.
    """
    world = SupportBot(seed=seed, n_true=qualities)
    line = ours[seed, definition] if ours else {}
    if arm == "untuned":
        nothing = {"dollars": 0, "calls": 0, "seconds": 0, "shipped": False}
        return nothing | {"balanced": line["untuned"]}
    server = SimulatedServer(world, LenientJudge, KeepingProposer)
    with tempfile.TemporaryDirectory() as name, serving(server):
        folder, began = Path(name), time.perf_counter()
        method, _, limit = arm.partition("-")
        if method == "ours":
            figures = tuned(folder, world, server, definition, limit)
        else:
            dollars = str(line["dollars"]) if limit == "equal" else limit
            figures = by_gepa(folder, world, server, definition, dollars, line["learned"])
        return figures | {"seconds": round(time.perf_counter() - began, 1)}


def tuned(
    folder: Path, world: SupportBot, server: SimulatedServer, definition: bool, limit: str
) -> dict[str, Any]:
    sheet = folder / "sheet.csv"
    pd.DataFrame(map(world.row, range(world.n_items))).to_csv(sheet, index=False)
    dimension = f"label={world.definition}" if definition else "label"
    settings: dict[str, Any] = {"dimension": dimension, "data": sheet, "seed": world.seed, **MODELS}
    summary = tune(folder, server.url, **settings, **({"max_cost": limit} if limit else {}))
    bill = billed(server)
    split = json.loads((folder / "run" / "splits.json").read_text())
    judge = judges.load(str(folder / "run"))
    fresh = [world.texts(item) for item in world.fresh]
    asked = [f"{field.name}: {field.description}" for field in judge.prompt.question_fields]
    balanced, untuned = (
        balanced_accuracy(verdicts(server.scores(each, fresh)), world.human[world.fresh])
        for each in (judge, judges.Judge.of(judge.subject, lm=judge.lm))
    )
    return bill | {
        "shipped": summary["shipped"] == "tuned",
        "balanced": balanced,
        "untuned": untuned,
        "questions": len(asked),
        "true_asked": int(np.sum((times_named(asked) > 0) & (world.true_weights > 0))),
        "learned": {"train": split["train"], "val": split["dev"]},
    }


def by_gepa(
    folder: Path,
    world: SupportBot,
    server: SimulatedServer,
    definition: bool,
    dollars: str,
    learned: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    parts = {**learned, "fresh": world.fresh}
    rows = {part: [world.row(int(item)) for item in items] for part, items in parts.items()}
    (folder / "labels.json").write_text(json.dumps(rows))
    command = [str(ROOT / "benchmarks" / "first_dollar_gepa.py"), str(folder / "labels.json")]
    command += [server.url, world.definition if definition else "", str(world.seed), dollars]
    asked = json.loads(run_python(command, folder).splitlines()[-1])  # DSPy prints, too
    bill, passes = billed(server), []
    for messages in asked:
        body = {"model": JUDGE_MODEL, "messages": messages, "temperature": 0}
        reply = server.answer(body)["choices"][0]["message"]["content"]
        passes.append([word == "pass" for word in reply.split() if word in ("pass", "fail")][-1])
    balanced = balanced_accuracy(passes, world.human[world.fresh])
    return bill | {"shipped": True, "balanced": balanced}


def billed(server: SimulatedServer) -> dict[str, Any]:
    return {"dollars": round(server.dollars, 4), "calls": sum(server.n_requests.values())}


def print_table(lines: Sequence[Line]) -> None:
    """Print means over seeds with their standard errors, by arm."""
    print("| definition | arm | balanced accuracy | dollars | calls | seconds | shipped |")
    print("|---|---|---|---|---|---|---|")
    for definition, arm in itertools.product((False, True), ARMS):
        here = [line for line in lines if (line["definition"], line["arm"]) == (definition, arm)]
        if here:
            balanced = with_error([line["balanced"] for line in here])
            names = ("dollars", "calls", "seconds")
            cost, calls, seconds = (mean(line[name] for line in here) for name in names)
            shipped = f"{sum(line['shipped'] for line in here)} of {len(here)}"
            cells = [arm, balanced, f"{cost:.3f}", f"{calls:.0f}", f"{seconds:.0f}", shipped]
            print(f"| {'yes' if definition else 'no'} | {' | '.join(cells)} |")
    if asking := [line for line in lines if line.get("questions")]:
        n, true = (mean(line[name] for line in asking) for name in ("questions", "true_asked"))
        print(f"{len(asking)} judges ask {n:.1f} questions, on {true:.1f} true qualities")


def main() -> None:
    parser = parser_of_runs((__doc__ or "").partition("\n")[0])
    parser.add_argument("--arms", dest="arm", nargs="*", default=ARMS, choices=ARMS)
    about = "whether the user types what earns a pass"
    parser.add_argument("--definition", choices=("no", "yes", "both"), default="both", help=about)
    parser.add_argument("--seeds", dest="seed", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--qualities", type=int, default=World.n_true, help="people go by them")
    flags = parser.parse_args()
    flags.definition = {"no": [False], "yes": [True], "both": [False, True]}[flags.definition]
    # All others need the labels, the dollars or the untuned judge of `ours`.
    others = [arm for arm in flags.arm if arm != "ours"]
    flags.arm = "ours"
    lines = collect(run, flags)
    ours = {(line["seed"], line["definition"]): line for line in lines}
    flags.arm = others
    lines += collect(partial(run, ours=ours), flags)
    print_table(lines)


if __name__ == "__main__":
    main()
