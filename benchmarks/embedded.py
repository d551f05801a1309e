"""The embedded model on a labelled file: untuned, by facet, taught by examples.

python benchmarks/embedded.py --data labels.jsonl [--dimensions coherence] [--demos 512]

All figures are summary-level rho. What examples teach is cross-validated: documents are dealt into
five folds and systems into four, and a judge shown examples of the other folds' documents by the
other folds' systems meets new documents by the systems it knows, and by those it does not. Few
systems say little of new ones, so all are dealt several times.
"""

import argparse
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

import data
from judges.dimension import Dimension
from judges.embedded.facets import FACET_NAMES, FloatArray
from judges.embedded.features import FACET_OF_FEATURE
from judges.embedded.model import EmbeddedJudge, read_prompt
from judges.labels.types import LabelledOutput
from judges.loading import load
from optimize.statistics.correlations import summary_level

CATALOGUE = ("coherence", "consistency", "fluency", "relevance")
DOCUMENT_FOLDS, SYSTEM_FOLDS = 5, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="labelled outputs")
    parser.add_argument("--dimensions", nargs="+", default=list(CATALOGUE), choices=CATALOGUE)
    parser.add_argument("--demos", type=int, default=512, help="examples that teach")
    parser.add_argument("--deals", type=int, default=12, help="times that all are dealt into folds")
    flags = parser.parse_args()
    labelled = data.read_labels(flags.data).outputs
    rows = []
    for name in flags.dimensions:
        outputs = [output for output in labelled if name in output.ratings]
        rows.append(report(load(name).subject, outputs, flags.demos, flags.deals))
    means = np.mean(rows, axis=0)
    print(f"mean of {len(rows)}: untuned {means[0]:.3f}")
    print_taught(flags.demos, means[1:])


def report(
    subject: Dimension, outputs: Sequence[LabelledOutput], n_demos: int, deals: int
) -> list[float]:
    """Untuned rho on all rows; then untuned and taught on known, and on new systems."""
    human = np.array([output.rating(subject.name) for output in outputs])
    document = np.array([output.document_id for output in outputs])
    system = subject.prompt().template()[0]["content"]
    prompt = read_prompt(system)
    judge = EmbeddedJudge(prompt, prompt.answer_field, [])
    features = np.array([judge.roles.measure(output.texts) for output in outputs])
    weights = judge.regression.weights
    whole = rho_of(features @ weights, human, document)
    print(f"{subject.name}: rho {whole:.3f} n={len(outputs)} outputs")
    for index, name in enumerate(FACET_NAMES):
        own = np.where(index == FACET_OF_FEATURE, weights, 0.0)
        if features[:, own != 0].any():
            lost = whole - rho_of(features @ (weights - own), human, document)
            alone = rho_of(features @ own, human, document)
            print(f"  {name:10s} weights {own.sum():5.2f} alone {alone:6.3f} adds {lost:+.3f}")
    rhos = taught(subject, system, outputs, n_demos, deals)
    print_taught(n_demos, rhos)
    return [whole, *rhos]


def print_taught(n: int, rhos: Sequence[float]) -> None:
    for name, old, new in zip(("known", "new"), rhos[::2], rhos[1::2], strict=True):
        both = f"untuned {old:.3f} taught {new:.3f}"
        print(f"  {n} examples, new documents by {name} systems: {both}")


def taught(
    subject: Dimension, system: str, outputs: Sequence[LabelledOutput], n_demos: int, deals: int
) -> list[float]:
    """Rho before and after examples of other documents, by systems they show and by others."""
    human = np.array([output.rating(subject.name) for output in outputs])
    document = np.array([output.document_id for output in outputs])
    maker = np.array([output.system for output in outputs])
    rng, task = np.random.default_rng(0), read_prompt(system)
    scale, untuned = np.array(subject.scale), EmbeddedJudge(task, task.answer_field, [])
    before = np.array([_latent(untuned, output.texts) for output in outputs])
    known, unknown = [], []
    for _ in range(deals):
        documents = np.array_split(rng.permutation(np.unique(document)), DOCUMENT_FOLDS)
        makers = np.array_split(rng.permutation(np.unique(maker)), SYSTEM_FOLDS)
        for left_out, unseen in itertools.product(documents, makers):
            new = np.isin(maker, unseen)
            test, train = np.isin(document, left_out), ~np.isin(document, left_out) & ~new
            demos = [
                {**outputs[i].texts, "rating": str(scale[np.abs(scale - human[i]).argmin()])}
                for i in rng.permutation(np.flatnonzero(train))[:n_demos]
            ]
            judge = EmbeddedJudge(task, task.answer_field, demos)
            after = np.full(len(outputs), np.nan)
            for i in np.flatnonzero(test):
                after[i] = _latent(judge, outputs[i].texts)
            for figures, rows in ((known, test & ~new), (unknown, test & new)):
                sides = human[rows], document[rows]
                figures.append([rho_of(scores[rows], *sides) for scores in (before, after)])
    return [*np.nanmean(known, axis=0), *np.nanmean(unknown, axis=0)]


def _latent(judge: EmbeddedJudge, texts: Mapping[str, str]) -> float:
    return judge.regression.predict(judge.roles.measure(texts))[0]


def rho_of(judge: FloatArray, human: FloatArray, document: np.ndarray) -> float:
    # The order in which a processor adds must not break ties.
    return summary_level(np.round(judge, 9), human, document).value


if __name__ == "__main__":
    main()
