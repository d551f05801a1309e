"""What a judge gains by questions: recorded models, SummEval: python benchmarks/questions.py.

`dspy-judges tune` gets the labels of 25 documents by 12 of 16 systems, dealt anew by each deal, and
a local server answers as a model was once recorded to (README.md). Printed is what is handed over,
beside the untuned judge, on the other 75 documents: the mean Spearman within documents, or with
--pass-fail the balanced accuracy. With --form the model is a decision model, which gives each
rating that was recorded as probabilities, spread over the neighbouring levels.
"""

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from simulated_server import serving
from summeval import MODELS, QUALITIES, RecordedServer, add_deal_flags, dealt, recorded_ratings
from tuning_runs import Line, collect, parser_of_runs, tune, with_error

import judges
from optimize.statistics.balanced import balanced_accuracy, verdicts
from optimize.statistics.correlations import summary_level

# How a model is asked, and the price of a million tokens: gpt-4o-mini's, and gpt-6-luna's.
FORMS = {"chat": ("openai", "0.15,0.60"), "systemone": ("systemone", "0.10,0")}
FORMS["decisions"] = ("decisions", "0.10,0")
SIDES, PLACES = ("untuned", "handed"), ("seen", "unseen")


def verdict(dimension: str, path: Path) -> Path:
    """The dimension as pass or fail, in a file with questions for ratings of the qualities."""
    questions = {
        other.name: {"text": other.definition, "answers": [1, 5]}
        for other in (judges.load(name).subject for name in QUALITIES)
    }
    inputs = dict(judges.load("relevance").subject.inputs)
    about = {"name": dimension, "definition": judges.load(dimension).subject.definition}
    about |= {"inputs": inputs, "scale": ["pass", "fail"], "questions": questions}
    path.write_text(json.dumps(about))
    return path


def run(
    model: str,
    dimension: str,
    deal: int,
    pass_fail: bool,
    shuffle: bool,
    documents: int,
    systems: int,
    form: str,
    spread: float,
) -> Line:
    """Tune as a user would, then measure what is handed over where nothing was learned."""
    rows, rng = dealt(dimension, deal, pass_fail, documents, systems)
    labels = rows[rows["taught"] & rows["seen"]]
    human = labels["human"].map({1.0: "pass", 0.0: "fail"}) if pass_fail else labels["human"]
    labels = labels[["id", "group", "system", "document", "summary"]].assign(**{dimension: human})
    if shuffle:
        labels[dimension] = rng.permutation(labels[dimension])
    server = RecordedServer(recorded_ratings(model), dimension, spread)
    prefix, price = FORMS[form]
    with tempfile.TemporaryDirectory() as name, serving(server):
        folder = Path(name)
        labels.to_json(folder / "labels.jsonl", orient="records", lines=True)
        subject = verdict(dimension, folder / "verdict.yaml") if pass_fail else dimension
        settings = {"data": folder / "labels.jsonl", "lm": f"{prefix}/{model}", "price": price}
        summary = tune(folder, server.url, dimension=subject, seed=deal, **settings)
        line: dict[str, Any] = {"calls": server.n_requests.total(), "dollars": summary["cost_usd"]}
        line["per_1000_rows"] = summary["cost_per_1000_rows"][f"{summary['shipped']}_judge"]
        judge = judges.load(str(folder / "run"))
        untuned = replace(judges.Judge.of(judge.subject, lm=judge.lm), plan=judge.plan)
        if rows["seen"].all():  # new systems are then those that tuning itself has held out
            split = json.loads((folder / "run" / "splits.json").read_text())
            rows["seen"] = ~rows["system"].isin(split["held_out_systems"])
        for place, (which, each) in itertools.product(
            PLACES, zip(SIDES, (untuned, judge), strict=True)
        ):
            fresh = rows[~rows["taught"] & (rows["seen"] == (place == "seen"))]
            scores = server.scores(each, fresh.to_dict("records"))
            line[f"{which}_{place}"] = (
                balanced_accuracy(verdicts(scores), fresh["human"])
                if pass_fail
                else summary_level(scores, fresh["human"], fresh["group"]).value
            )
    line["shipped"] = summary["shipped"] == "tuned"
    return line | {"questions": [field.name for field in judge.prompt.question_fields]}


def print_table(lines: Sequence[Line]) -> None:
    """Print means over deals by cell, over all of them, and of the cell with the least gain."""
    cells: dict[str, list[Line]] = {}
    for line in lines:
        cells.setdefault(f"{line['model']} | {line['dimension']}", []).append(line)
    worst = min(cells, key=lambda cell: mean(gains(cells[cell], "seen")))
    heads = "seen: untuned | handed over | gain | unseen: untuned | handed over | gain"
    costs = "shipped | calls | dollars | $ per 1,000 rows"
    print(f"| model | dimension | {heads} | {costs} | questions kept |\n" + "|---" * 13 + "|")
    everything = {"all | mean": list(lines), f"worst: {worst}": cells[worst]}
    for cell, here in (cells | everything).items():
        figures = []
        for place in PLACES:
            both = (mean(line[f"{which}_{place}"] for line in here) for which in SIDES)
            figures += [*(f"{value:.3f}" for value in both), with_error(gains(here, place))]
        figures.append(f"{sum(line['shipped'] for line in here)} of {len(here)}")
        for name, digits in (("calls", 0), ("dollars", 3), ("per_1000_rows", 3)):
            figures.append(f"{mean(line[name] for line in here):.{digits}f}")
        kept = Counter(name for line in here for name in line["questions"]).most_common()
        figures.append(", ".join(f"{name} {count}" for name, count in kept))
        print(f"| {cell} | {' | '.join(figures)} |")


def gains(lines: Sequence[Line], place: str) -> list[float]:
    return [line[f"handed_{place}"] - line[f"untuned_{place}"] for line in lines]


def main() -> None:
    parser = parser_of_runs((__doc__ or "").partition("\n")[0])
    add_deal_flags(parser, MODELS)
    parser.add_argument("--documents", type=int, default=25)
    parser.add_argument("--systems", type=int, default=12)
    parser.add_argument("--shuffle", action="store_true", help="shuffle the labels that teach")
    parser.add_argument("--form", choices=FORMS, default="chat", help="how the model is asked")
    about = "levels over which a decision spreads a rating: .2 is sharp, 2 is flat"
    parser.add_argument("--spread", type=float, default=0.5, help=about)
    print_table(collect(run, parser.parse_args()))


if __name__ == "__main__":
    main()
