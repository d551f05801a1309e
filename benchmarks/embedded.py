"""The embedded model untuned: summary-level rho on a labelled file, by facet, and its speed.

python benchmarks/embedded.py --data labels.jsonl [--dimension coherence] [--demos 16]
"""

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

import data
from data.types import LabelledOutput
from judges.define import read_subject
from judges.dimension import Dimension
from judges.models.embedded import EmbeddedModel
from judges.models.embedded.facets import NAMES, Vector
from judges.models.embedded.judge import make_judge
from judges.models.embedded.reading import facet_scores
from judges.models.embedded.request import read_task
from judges.models.protocol import Sampling
from judges.prompt import fill
from optimize.agreement import summary_level

CATALOGUE = ("coherence", "consistency", "fluency", "relevance")
DRAWS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one block a dimension."""
    parser = argparse.ArgumentParser(prog="benchmarks/embedded.py", description=__doc__)
    parser.add_argument("--data", help="labelled outputs (default: the starter set)")
    parser.add_argument("--dimension", action="append", help="a catalogue name or FILE[:name]")
    parser.add_argument("--demos", type=int, default=16, help="demos drawn to measure learning")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    labelled = data.read_labels(options.data) if options.data else data.starter()
    means = []
    for name in options.dimension or CATALOGUE:
        subject = read_subject(name)
        if not isinstance(subject, Dimension):
            parser.error(f"{name} is a comparison; this benchmark takes dimensions")
        outputs = [one for one in labelled.outputs if subject.name in one.ratings]
        means.append(_report(subject, outputs, options.demos, options.seed))
    print(f"mean rho of {len(means)}: {np.mean(means):.3f}")
    return 0


def _report(subject: Dimension, outputs: Sequence[LabelledOutput], n: int, seed: int) -> float:
    human = np.array([one.rating(subject.name) for one in outputs])
    document = np.array([one.document_id for one in outputs])
    template = subject.prompt().template()
    model, sampling = EmbeddedModel(), Sampling(top_logprobs=20)
    start = time.perf_counter()
    for one in outputs:
        model.reply(fill(template, one.texts), sampling)
    rate = len(outputs) / (time.perf_counter() - start)

    judge = make_judge(read_task(template[0]["content"]), [])
    candidate = judge.roles.candidates[0]
    facets = np.array([facet_scores(judge.roles, one.texts, candidate) for one in outputs])
    whole = _rho(facets @ judge.weights, human, document)
    print(f"{subject.name}: rho {whole:.3f} n={len(outputs)} outputs, {rate:.0f} ratings/s")
    for place in np.argsort(-np.abs(judge.weights)):
        if not facets[:, place].any() or abs(judge.weights[place]) < 0.02:
            continue
        without = judge.weights.copy()
        without[place] = 0
        lost = whole - _rho(facets @ without, human, document)
        alone = _rho(facets[:, place], human, document)
        weight = judge.weights[place]
        print(f"  {NAMES[place]:13s} weight {weight:5.2f} alone {alone:6.3f} adds {lost:+.3f}")
    gains = _learning(subject, template[0]["content"], outputs, facets, n, seed)
    print(f"  {n} demos: rho on other documents {np.mean(gains):+.3f}, {DRAWS} draws", flush=True)
    return whole


def _learning(
    subject: Dimension,
    system: str,
    outputs: Sequence[LabelledOutput],
    facets: Vector,
    n: int,
    seed: int,
) -> list[float]:
    """What demos drawn from half of the documents add on the other half."""
    human = np.array([one.rating(subject.name) for one in outputs])
    document = np.array([one.document_id for one in outputs])
    rng, task = np.random.default_rng(seed), read_task(system)
    prior, gains = make_judge(task, []).weights, []
    for _ in range(DRAWS):
        names = rng.permutation(np.unique(document))
        train = np.flatnonzero(np.isin(document, names[: len(names) // 2]))
        test = np.isin(document, names[len(names) // 2 :])
        shown = rng.choice(train, size=min(n, len(train)), replace=False)
        scale = np.array(subject.scale)
        demos = [
            {**outputs[i].texts, "rating": str(scale[np.abs(scale - human[i]).argmin()])}
            for i in shown
        ]
        learned = make_judge(task, demos).weights
        both = [_rho(facets[test] @ w, human[test], document[test]) for w in (learned, prior)]
        gains.append(both[0] - both[1])
    return gains


def _rho(judge: Vector, human: Vector, document: np.ndarray) -> float:
    return summary_level(judge, human, document, resamples=0).value


if __name__ == "__main__":
    sys.exit(main())
