"""The embedded model on a labelled file: untuned, by facet, taught by examples; and its speed.

python benchmarks/embedded.py --data labels.jsonl [--dimension coherence] [--demos 512]

All figures are summary-level rho. What examples teach is cross-validated: documents are dealt into
five folds and systems into four, and a judge shown examples of the other folds' documents by the
other folds' systems meets new documents by the systems it knows, and by those it does not. Few
systems say little of new ones, so all are dealt several times.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence

import numpy as np

import data
from judges.client.event_loop import run_now
from judges.dimension import Dimension
from judges.embedded import EmbeddedModel
from judges.embedded.facets import FACET_OF_FEATURE, NAMES, Vector
from judges.embedded.model import judged_features, make_judge, read_prompt
from judges.labels.types import LabelledOutput
from judges.loading import read_subject
from judges.prompt import fill_slots
from judges.protocol import Sampling
from optimize.statistics.correlations import summary_level

CATALOGUE = ("coherence", "consistency", "fluency", "relevance")
DOCUMENT_FOLDS, SYSTEM_FOLDS = 5, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one block a dimension."""
    parser = argparse.ArgumentParser(prog="benchmarks/embedded.py", description=__doc__)
    parser.add_argument("--data", help="labelled outputs (default: the starter set)")
    parser.add_argument("--dimension", action="append", help="a catalogue name or FILE[:name]")
    parser.add_argument("--demos", type=int, default=512, help="examples that teach")
    parser.add_argument("--deals", type=int, default=12, help="times that all are dealt into folds")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    labelled = data.read_labels(options.data) if options.data else data.starter()
    rows = []
    for name in options.dimension or CATALOGUE:
        subject = read_subject(name)
        if not isinstance(subject, Dimension):
            parser.error(f"{name} is a comparison; this benchmark takes dimensions")
        outputs = [output for output in labelled.outputs if subject.name in output.ratings]
        rows.append(_report(subject, outputs, options))
    means = np.mean(rows, axis=0)
    print(f"mean of {len(rows)}: untuned {means[0]:.3f}")
    _say(options.demos, means[1:])
    return 0


def _report(
    subject: Dimension, outputs: Sequence[LabelledOutput], options: argparse.Namespace
) -> list[float]:
    """Untuned rho on all rows; then untuned and taught on known, and on new systems."""
    human = np.array([one.rating(subject.name) for one in outputs])
    document = np.array([one.document_id for one in outputs])
    template = subject.prompt().template()
    model, sampling = EmbeddedModel(), Sampling(top_logprobs=20)
    start = time.perf_counter()
    for one in outputs:
        run_now(model.complete(fill_slots(template, one.texts), sampling))
    rate = len(outputs) / (time.perf_counter() - start)

    judge = make_judge(read_prompt(template[0]["content"]), [])
    parts = np.array([judged_features(judge.roles, one.texts) for one in outputs])
    weights = judge.regression.weights
    whole = _rho(parts @ weights, human, document)
    print(f"{subject.name}: rho {whole:.3f} n={len(outputs)} outputs, {rate:.0f} ratings/s")
    for index, name in enumerate(NAMES):
        own = np.where(index == FACET_OF_FEATURE, weights, 0.0)
        if parts[:, own != 0].any():
            lost = whole - _rho(parts @ (weights - own), human, document)
            alone = _rho(parts @ own, human, document)
            print(f"  {name:10s} weights {own.sum():5.2f} alone {alone:6.3f} adds {lost:+.3f}")
    taught = _taught(subject, template[0]["content"], outputs, options)
    _say(options.demos, taught)
    return [whole, *taught]


def _say(n: int, rhos: Sequence[float]) -> None:
    for name, old, new in zip(("known", "new"), rhos[::2], rhos[1::2], strict=True):
        print(
            f"  {n} examples, new documents by {name} systems: untuned {old:.3f} taught {new:.3f}"
        )


def _taught(
    subject: Dimension,
    system: str,
    outputs: Sequence[LabelledOutput],
    options: argparse.Namespace,
) -> list[float]:
    """Rho before and after examples of other documents, by systems they show and by others."""
    human = np.array([output.rating(subject.name) for output in outputs])
    document = np.array([output.document_id for output in outputs])
    maker = np.array([output.system for output in outputs])
    rng, task = np.random.default_rng(options.seed), read_prompt(system)
    scale, untuned = np.array(subject.scale), make_judge(task, [])
    before = np.array([untuned.judge(output.texts)[0] for output in outputs])
    known, unknown = [], []
    for _ in range(options.deals):
        documents = np.array_split(rng.permutation(np.unique(document)), DOCUMENT_FOLDS)
        makers = np.array_split(rng.permutation(np.unique(maker)), SYSTEM_FOLDS)
        for left_out, unseen in itertools.product(documents, makers):
            new = np.isin(maker, unseen)
            test, train = np.isin(document, left_out), ~np.isin(document, left_out) & ~new
            demos = [
                {**outputs[i].texts, "rating": str(scale[np.abs(scale - human[i]).argmin()])}
                for i in rng.permutation(np.flatnonzero(train))[: options.demos]
            ]
            judge = make_judge(task, demos)
            after = np.full(len(outputs), np.nan)
            for i in np.flatnonzero(test):
                after[i] = judge.judge(outputs[i].texts)[0]
            for found, rows in ((known, test & ~new), (unknown, test & new)):
                found.append(
                    [_rho(scores[rows], human[rows], document[rows]) for scores in (before, after)]
                )
    return [float(rho) for found in (known, unknown) for rho in np.nanmean(found, axis=0)]


def _rho(judge: Vector, human: Vector, document: np.ndarray) -> float:
    # The order in which a processor adds must not break ties.
    return summary_level(np.round(judge, 9), human, document).value


if __name__ == "__main__":
    sys.exit(main())
