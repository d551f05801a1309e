"""The first dollar of a new user, beside thirty lines of DSPy: python benchmarks/first_dollar.py.

A sheet of 220 replies of a support bot, pass or fail, some with a critique, is tuned on simulated
models (`simulated_worlds.py`) by `dspy-judges tune` and by dspy.GEPA (`first_dollar_gepa.py`) with
the same labels and as many dollars. Printed is the balanced accuracy of what each hands over, on
400 rows that nobody learned from, and what the server billed. It runs the checkout that it lies in.
One arm and one seed take ten seconds:

    python benchmarks/first_dollar.py --arms ours --seeds 0 --definition no

Arms: `untuned`; `ours` (no limit), `ours-1`, `ours-5` (--max-cost); `gepa-equal` (the dollars of
`ours`, which is run first), `gepa-1`, `gepa-light` (auto="light"). Each run is a line of --out as
soon as it is done; --resume keeps them.
"""

import argparse
import csv
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from simulated import with_error
from simulated_server import JUDGE_MODEL, PROPOSER_MODEL, SimulatedServer, serve
from simulated_worlds import (
    ITEM,
    QUALITIES,
    Judge,
    Messages,
    Reading,
    SimulatedJudge,
    SimulatedProposer,
    Vector,
    World,
    thresholds,
    times_named,
)

import judges

ROOT = Path(__file__).parents[1]
ARMS = ("untuned", "ours", "gepa-equal", "ours-1", "gepa-1", "ours-5", "gepa-light")
N_ROWS, N_FRESH = 220, 400
FAILS = 0.25
# The proposer's eye for what goes with labels that nobody explains.
SKILL = 0.8
RULE = re.compile(r"(?:above all|also): ([^.\n]+)\.")
STRICT = "When in doubt, say fail."
# How much a quality that the present instruction names stays in the next one.
KEPT = 4.0
KEYS = ("arm", "seed", "definition", "qualities")
Line = Mapping[str, Any]


class SupportBot(World):
    """Replies that people pass or fail; a third of what they go by stands in critiques alone."""

    @cached_property
    def own_weights(self) -> Vector:
        weights = super().own_weights + 0.7 * self.true_weights
        return weights / np.linalg.norm(weights)

    def critique(self, item: int) -> str:
        """Most fails have one, and few passes."""
        share = 0.3 if self.human[item] else 0.8
        written = self.rng("has critique", item).random() < share
        return super().critique(item) if written else ""

    def _written(self, item: int) -> dict[str, str]:
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

    def row(self, item: int) -> dict[str, str]:
        label = "pass" if self.human[item] else "fail"
        return {**self.texts(item), "label": label, "critique": self.critique(item)}

    def write_sheet(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            sheet = csv.DictWriter(file, ["id", "input", "output", "label", "critique"])
            sheet.writeheader()
            sheet.writerows({"id": item, **self.row(item)} for item in range(self.n_items))


class LenientJudge(SimulatedJudge):
    """Passes too much, unless its instruction is strict."""

    def _read(self, messages: Messages, digest: bytes) -> Reading:
        reading = super()._read(messages, digest)
        if STRICT in messages[0]["content"]:
            reading = replace(reading, edges=thresholds(self.world.top_share))
        return reading


class KeepingProposer(SimulatedProposer):
    """Keeps some of what the present instruction names; gets strict where people complain."""

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


def support_bot(seed: int, n_true: int) -> SupportBot:
    judge = Judge(wording=0.7, demos=0.3, error=0.15, crowding=0.5)
    return SupportBot(
        name="support bot",
        seed=seed,
        judge=judge,
        n_documents=N_ROWS,
        n_systems=1,
        n_fresh_documents=N_FRESH,
        words=(60, 160),
        people_error=0.15,
        n_annotators=1,
        n_true=n_true,
        two_values=True,
        critiques=True,
        top_share=1 - FAILS / 0.4,
    )


def run(arm: str, seed: int, definition: bool, n_true: int, ours: Line) -> Line:
    """What one arm hands over, as a new user would run it.

    dspy.GEPA learns from the labels that `ours` has learned from; `gepa-equal` spends as much.
    """
    world = support_bot(seed, n_true)
    line: dict[str, Any] = dict(zip(KEYS, (arm, seed, definition, n_true), strict=True))
    if arm == "untuned":
        nothing = {"dollars": 0, "calls": 0, "seconds": 0, "shipped": False}
        return line | nothing | {"balanced": ours["untuned"]}
    with tempfile.TemporaryDirectory() as name, serve(world, SKILL) as server:
        server.judge, server.proposer = LenientJudge(world), KeepingProposer(world, SKILL)
        folder, kind, limit = Path(name), *arm.partition("-")[::2]
        began = time.perf_counter()
        if kind == "ours":
            figures = tuned(folder, world, server, definition, limit)
        else:
            dollars = str(ours["dollars"]) if limit == "equal" else limit
            figures = by_gepa(folder, world, server, definition, dollars, ours["learned"])
        return line | figures | {"seconds": round(time.perf_counter() - began, 1)}


def tuned(
    folder: Path, world: SupportBot, server: SimulatedServer, definition: bool, limit: str
) -> dict[str, Any]:
    world.write_sheet(folder / "sheet.csv")
    dimension = f"label={world.definition}" if definition else "label"
    command = ["-m", "dspy_judges", "tune", "--dimension", dimension]
    command += ["--data", str(folder / "sheet.csv"), "--lm", f"openai/{JUDGE_MODEL}"]
    command += ["--proposer-lm", f"openai/{PROPOSER_MODEL}", "--api-base", server.url]
    command += ["--seed", str(world.seed), "--out", str(folder / "run"), "--json"]
    summary = json.loads(child(command + ["--max-cost", limit] * bool(limit), folder))
    bill = billed(server)
    split = json.loads((folder / "run" / "splits.json").read_text())
    judge = judges.load(str(folder / "run"))
    untuned = judges.Judge.of(judge.subject, lm=judge.lm)
    path = folder / "run" / "tuned.json"
    found = judges.load(str(path)) if path.exists() else judge
    fresh = [world.texts(item) for item in fresh_items(world)]
    asked = [f"{field.name}: {field.description}" for field in judge.prompt.questions]

    def balanced(judge: judges.Judge) -> float:
        return accuracy(server.scores(judge, fresh) >= 0.5, world)

    return bill | {
        "shipped": summary["shipped"] == "tuned",
        "balanced": balanced(judge),
        "untuned": balanced(untuned),
        "tuned": balanced(found),
        "best": best(world, server),
        "questions": len(asked),
        "true_asked": int(np.sum((times_named(asked) > 0) & (world.true_weights > 0))),
        "instruction": judge.prompt.instruction,
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
    parts = learned | {"fresh": [str(item) for item in fresh_items(world)]}
    rows = {part: [world.row(int(item)) for item in items] for part, items in parts.items()}
    (folder / "labels.json").write_text(json.dumps(rows))
    command = [str(ROOT / "benchmarks" / "first_dollar_gepa.py"), str(folder / "labels.json")]
    command += [server.url, world.definition if definition else "", str(world.seed), dollars]
    asked = json.loads(child(command, folder).splitlines()[-1])  # DSPy prints, too
    return billed(server) | {
        "shipped": True,
        "balanced": measured(asked, world, server),
        "instruction": asked[0][0]["content"].partition("objective is:")[2].strip(),
    }


def child(command: Sequence[str], folder: Path) -> str:
    """What a command prints that runs this checkout, without any cache of an earlier run."""
    environment = os.environ | {
        "OPENAI_API_KEY": "simulated",
        "PYTHONPATH": str(ROOT),
        "DSPY_JUDGES_CACHE": "none",
        "DSPY_CACHEDIR": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def billed(server: SimulatedServer) -> dict[str, Any]:
    return {"dollars": round(server.dollars, 4), "calls": sum(server.n_requests.values())}


def fresh_items(world: World) -> range:
    return range(world.n_items, len(world.gold))


def measured(
    asked: Sequence[Sequence[Mapping[str, str]]], world: World, server: SimulatedServer
) -> float:
    """Balanced accuracy of the judge that asks these messages of the fresh rows."""
    passed = []
    for messages in asked:
        body = {"model": JUDGE_MODEL, "messages": messages, "temperature": 0}
        reply = server.answer(body)["choices"][0]["message"]["content"]
        passed.append([word == "pass" for word in reply.split() if word in ("pass", "fail")][-1])
    return accuracy(passed, world)


def accuracy(passed: Any, world: World) -> float:
    """Balanced accuracy on the fresh rows."""
    human = world.human[list(fresh_items(world))]
    return float(np.mean([np.mean(np.equal(passed, value)[human == value]) for value in (0, 1)]))


def best(world: SupportBot, server: SimulatedServer) -> float:
    """What the judge reaches whose instruction names what people go by, and is strict."""
    named = [QUALITIES[index][0] for index in np.flatnonzero(world.true_weights)]
    system = {"role": "system", "content": f"{', '.join(named)}. {STRICT}"}
    items = fresh_items(world)
    asked = [[system, {"role": "user", "content": world.texts(item)["output"]}] for item in items]
    return measured(asked, world, server)


def table(lines: Sequence[Line]) -> str:
    """Means over seeds with their standard errors, by arm."""
    rows = [
        "| definition | arm | balanced accuracy | dollars | calls | seconds | shipped |",
        "|---|---|---|---|---|---|---|",
    ]
    for definition, arm in itertools.product((False, True), ARMS):
        here = [line for line in lines if (line["definition"], line["arm"]) == (definition, arm)]
        if here:
            balanced = with_error([line["balanced"] for line in here])
            means = [mean(line[name] for line in here) for name in ("dollars", "calls", "seconds")]
            cost, calls, seconds = means
            shipped = f"{sum(line['shipped'] for line in here)} of {len(here)}"
            rows.append(
                f"| {'yes' if definition else 'no'} | {arm} | {balanced} | {cost:.3f} | "
                f"{calls:.0f} | {seconds:.0f} | {shipped} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    about = "whether the user types what earns a pass"
    parser.add_argument("--definition", choices=("no", "yes", "both"), default="both", help=about)
    parser.add_argument("--qualities", type=int, default=World.n_true, help="people go by them")
    parser.add_argument("--resume", action="store_true", help="keep the lines of a stopped run")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "first_dollar.jsonl")
    flags = parser.parse_args()
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    done: dict[tuple[object, ...], Line] = {}
    if flags.resume and flags.out.exists():
        kept = map(json.loads, flags.out.read_text().splitlines())
        done = {tuple(line[key] for key in KEYS): line for line in kept}
    definitions = {"no": [False], "yes": [True], "both": [False, True]}[flags.definition]
    # All others need the labels, the dollars or the untuned judge of `ours`.
    arms = dict.fromkeys(["ours", *flags.arms])
    with flags.out.open("a" if flags.resume else "w") as file:
        for definition, seed, arm in itertools.product(definitions, flags.seeds, arms):
            key, ours = ((name, seed, definition, flags.qualities) for name in (arm, "ours"))
            if key not in done:
                line = done[key] = run(*key, done.get(ours, {}))
                print(json.dumps(line), file=file, flush=True)
                print(json.dumps(line | {"learned": None}), file=sys.stderr)
    here = [done[key] for key in done if key[1] in flags.seeds and key[3] == flags.qualities]
    print(table(here))
    if asking := [line for line in here if line.get("questions")]:
        n, true = (mean(line[name] for line in asking) for name in ("questions", "true_asked"))
        print(f"{len(asking)} judges ask {n:.1f} questions, on {true:.1f} true qualities")


if __name__ == "__main__":
    main()
