"""Panels of recorded judges, and recorded judges with questions, at 12 and at 80 documents.

python benchmarks/panels.py [--deals 12] [--shared FOLDER]

A deal draws the labelled documents, and a panel learned on them is measured on the others, beside
the best single judge by the same labels ("own"). A judge with questions is also asked about the
other three qualities in the same reply: the answers are its recorded ratings of these, the untuned
judge is its "own", and the search's code chooses questions, weights, and what ships. Rho is
Spearman's, summary-level; a difference is a mean over deals and documents, with an interval over
documents. Published labels and replies are
read from the folder `shared/data` beside the project; without it nothing is measured.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from judges.dimension import Dimension
from judges.judge import Judge
from judges.judgement import Judgement
from judges.loading import load
from judges.prompt import Field, Prompt
from optimize.items import Item, Items
from optimize.measuring import recorded
from optimize.measuring.panel_learning import learn_panel
from optimize.search.evaluator import (
    Evaluator,
    ItemJudgement,
    Pricing,
    SearchBudget,
    SearchProblem,
)
from optimize.search.gate import decide
from optimize.search.optimizer import Exploration
from optimize.search.questions import NotTestedError, ask_questions
from optimize.statistics.correlations import Mask, document_terms, read_rows
from optimize.statistics.intervals import Vector, interval_of_mean, stream

# What labelled rows teach: scores of all rows, by the judge alone and by what ships, and its kind.
Learn = Callable[[Mask, np.random.Generator], tuple[Vector, Vector, str]]

SHARED = Path(__file__).parents[2] / "shared" / "data"
PROMPTS = ("rts", "mcq", "stareval", "altrts", "altmcq")
FIVE = (*(f"gpt-3.5 {prompt}" for prompt in PROMPTS), "embedded")
TEN = (*FIVE, "gpt-4", "gpt-4o-mini", "llama-3.1", "mistral-7b-v0.3")
QUALITIES = ("coherence", "consistency", "fluency", "relevance")
TALK = ("gpt-3.5 free_text", "gpt-3.5 auto_cot_score_only", "embedded")
LETTERS = {"A": 1, "B": 2, "C": 3, "D": 4, "E": 5}
# What a turn of talk is judged for, and its scale in the labels.
TURN: Mapping[str, tuple[str, range]] = {
    "naturalness": ("whether the response is something a person would say", range(1, 4)),
    "coherence": ("whether the response carries on the talk so far", range(1, 4)),
    "engagingness": ("whether the response keeps the talk alive", range(1, 4)),
    "groundedness": ("whether the response makes use of the fact", range(2)),
}
SUMMARY_SCALES = dict.fromkeys(QUALITIES, range(1, 6))
TURN_SCALES = {name: scale for name, (_, scale) in TURN.items()}
INPUTS = {"context": "the talk so far", "fact": "a fact given", "response": "the next turn"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table: own, panel and their difference, by panel, dimension and number of labels."""
    parser = argparse.ArgumentParser(prog="benchmarks/panels.py", description=__doc__)
    parser.add_argument("--deals", type=int, default=12, help="draws of the labelled documents")
    parser.add_argument("--shared", type=Path, default=SHARED, help="labels and recordings")
    options = parser.parse_args(arguments)
    if not (options.shared / "summeval_judges").is_dir():
        print(f"skipped: {options.shared} does not hold the published labels and replies")
        return 0
    print("| panel | dimension | labelled | own | panel | panel less own | shipped |")
    print("|---|---|---|---|---|---|---|")
    summaries = {name: summeval(options.shared, name) for name in QUALITIES}
    talk = {name: topical_chat(options.shared, name) for name in TURN}
    for dimension, rows in summaries.items():
        report("five GPT-3.5 prompts + embedded", dimension, rows, FIVE, options.deals)
        report("all ten", dimension, rows, TEN, options.deals)
        for judge in ("gpt-3.5 rts", "gpt-4"):
            report_questions(judge, dimension, summaries, SUMMARY_SCALES, options.deals)
    for dimension, rows in talk.items():
        report("Topical-Chat, two prompts + embedded", dimension, rows, TALK, options.deals)
        for judge in TALK[:2]:
            report_questions(judge, dimension, talk, TURN_SCALES, options.deals)
    return 0


def summeval(shared: Path, dimension: str) -> pd.DataFrame:
    """The labelled rows, with a column of scores for each judge."""
    rows = labelled(shared / "summeval" / "summeval.jsonl", dimension)
    folder = shared / "summeval_judges"
    for prompt, by_id in replies(folder / "replies_gpt-3.5-turbo-0301.jsonl", dimension).items():
        rows[f"gpt-3.5 {prompt}"] = rows["id"].map(by_id)
    (by_id,) = replies(folder / "replies_gpt-4-0314.jsonl", dimension).values()
    rows["gpt-4"] = rows["id"].map(by_id)
    for model in TEN[-3:]:
        path = shared / "summeval_scores" / f"scores_{model}.jsonl"
        rows[model] = rows["id"].map(recorded.read_scores(path, dimension))
    return rows.assign(embedded=load(dimension).score(rows))


def topical_chat(shared: Path, dimension: str) -> pd.DataFrame:
    """The same of turns of talk."""
    rows = labelled(shared / "topical_chat" / "topical_chat.jsonl", dimension)
    definition, scale = TURN[dimension]
    for name in TALK[:2]:
        prompt = name.removeprefix("gpt-3.5 ")
        path = shared / "topical_chat_judges" / f"replies_gpt-3.5-turbo_{prompt}.jsonl"
        (by_id,) = replies(path, dimension, scale).values()
        rows[name] = rows["id"].map(by_id)
    subject = Dimension(
        name=dimension,
        definition=definition,
        inputs=INPUTS,
        anchors=dict.fromkeys(scale, ""),
        instruction=f"Rate {definition}.",
    )
    return rows.assign(embedded=Judge.of(subject).score(rows))


def labelled(path: Path, dimension: str) -> pd.DataFrame:
    rows = pd.read_json(path, lines=True)
    return rows.assign(human=[float(ratings[dimension]) for ratings in rows["ratings"]])


def replies(path: Path, dimension: str, scale: range = range(1, 6)) -> dict[str, dict[str, float]]:
    """Scores by prompt and id, of several replies their mean."""
    by_prompt: dict[str, dict[str, float]] = defaultdict(dict)
    for record in recorded.read_replies(path, dimension=dimension):
        letters = LETTERS if "mcq" in str(record.prompt) else None
        judged = recorded.judgement(record.replies, scale, values=letters, names=(dimension,))
        by_prompt[str(record.prompt)][record.id] = judged.score
    return by_prompt


def report(
    panel: str, dimension: str, rows: pd.DataFrame, names: Sequence[str], deals: int
) -> None:
    """Print the lines of a panel."""
    rows = rows.dropna(subset=list(names))
    scores = {name: rows[name].to_numpy() for name in names}
    human, document, system = (rows[key].to_numpy() for key in ("human", "group", "system"))

    def learn(train: Mask, rng: np.random.Generator) -> tuple[Vector, Vector, str]:
        taught = {name: values[train] for name, values in scores.items()}
        labels = human[train], document[train].tolist(), system[train].tolist()
        fit = learn_panel(taught, *labels, level="summary", rng=rng)
        return scores[fit.best], fit.scores(scores), fit.kind

    print_lines(panel, dimension, rows, learn, deals)


def report_questions(
    judge: str,
    dimension: str,
    tables: Mapping[str, pd.DataFrame],
    scales: Mapping[str, range],
    deals: int,
) -> None:
    """Print the lines of one judge that is also asked about the other qualities."""
    ratings = pd.DataFrame({name: table[judge] for name, table in tables.items()}).dropna()
    rows = tables[dimension].loc[ratings.index]
    # The judge's own rating is the last answer.
    ratings = ratings[[*(name for name in tables if name != dimension), dimension]]

    *questions, answer = (
        Field(name=name, description=name, role="output", choices=tuple(scales[name]))
        for name in map(str, ratings)
    )
    by_row = [
        {str(name): rating for name, rating in row.items()} for row in ratings.to_dict("records")
    ]
    judgements = [
        ItemJudgement(Judgement(score=answers[dimension], answers=answers)) for answers in by_row
    ]
    items = [
        Item(id=str(n), document_id=document, system=system, texts={}, human=human)
        for n, (document, system, human) in enumerate(rows[["group", "system", "human"]].values)
    ]
    own = ratings[dimension].to_numpy()

    def learn(train: Mask, rng: np.random.Generator) -> tuple[Vector, Vector, str]:
        names = rng.permutation(rows["group"][train].unique()).tolist()
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        teaching, testing = (
            Items(tuple(item for item in items if item.document_id in half)) for half in halves
        )
        evaluator = Evaluator(
            untuned=Prompt(instruction="Rate it.", fields=(answer,)),
            judge=lambda prompt, items: [judgements[int(item.id)] for item in items],
            budget=SearchBudget(np.inf),
            pricing=Pricing(per_call=1),
        )
        problem = SearchProblem(
            evaluator=evaluator,
            questions=tuple(questions),
            train=teaching,
            dev=testing,
            goal="summary",
        )
        nothing = Exploration(finalists=(), candidate_ids=())
        sides = problem, replace(problem, train=testing, dev=teaching)
        try:
            test = ask_questions(sides, [nothing, nothing])
        except NotTestedError:
            return own, own, "own"
        tuned, decision = decide(problem, [], 1, questions=test)
        if not decision.ship or tuned.weights is None:
            return own, own, "own"
        scores = [tuned.weights.score(answers) for answers in by_row]
        return own, np.array(scores), "questions"

    print_lines(f"{judge} with questions", dimension, rows, learn, deals)


def print_lines(panel: str, dimension: str, rows: pd.DataFrame, learn: Learn, deals: int) -> None:
    """Print a line for each number of labelled documents (of few, as many as leave a fifth)."""
    human, document = (rows[key].to_numpy() for key in ("human", "group"))
    documents = np.unique(document)
    for number in (12, min(80, documents.size * 4 // 5)):
        terms: dict[str, list[pd.Series]] = {"own": [], "panel": []}
        shipped = Counter[str]()
        for deal in range(deals):
            rng = stream(deal, "panels", number)
            train = np.isin(document, rng.permutation(documents)[:number])
            own, joined, kind = learn(train, rng)
            shipped[kind] += 1
            for way, values in (("own", own), ("panel", joined)):
                test = ~train & ~np.isnan(values)
                judged = read_rows(values[test], human[test], document[test])
                by_document = document_terms(judged, "summary")
                terms[way].append(pd.Series(by_document, index=np.unique(document[test])))
        alone, ships = (pd.DataFrame(series).mean() for series in terms.values())
        gap = (ships - alone).to_numpy()
        interval = interval_of_mean(gap)
        ends = f" [{interval.low:+.3f}, {interval.high:+.3f}]" if interval else ""
        kinds = ", ".join(f"{kind} {count}" for kind, count in shipped.most_common())
        print(
            f"| {panel} | {dimension} | {number} | {alone.mean():.3f} | {ships.mean():.3f} ", end=""
        )
        print(f"| {np.nanmean(gap):+.3f}{ends} | {kinds} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
