"""A simulated world's models without HTTP, and a whole paid run on them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from files import read_jsonl, write_jsonl

from judges.protocol import Completion, Message, Reply, Sampling
from optimize.tuning.pipeline import tune_in_folder
from optimize.tuning.settings import Settings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


class PaidRun(NamedTuple):
    """A run: its summary, trials, bill, the bodies of its requests, and its settings."""

    summary: Any
    trials: list[dict[str, Any]]
    bill: float
    bodies: list[Mapping[str, Any]]
    settings: dict[str, Any]


class SimulatedModel:
    """The endpoint's answers: what a request takes of this process is another's."""

    native_n = True
    has_logprobs = True
    in_process = True
    endpoint = "simulated"

    def __init__(self, server: Any, name: str) -> None:
        self.server, self.name = server, name

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer as the endpoint would; log-probabilities are left out."""
        how = {name: getattr(sampling, name) for name in ("temperature", "seed", "n")}
        answer = self.server.answer({"model": self.name, "messages": messages, **how})
        return Completion(
            replies=tuple(Reply(text=choice["message"]["content"]) for choice in answer["choices"]),
            tokens_in=answer["usage"]["prompt_tokens"],
            tokens_out=answer["usage"]["completion_tokens"],
            model=self.name,
        )

    async def close(self) -> None:
        """There is nothing to close."""


def paid_run(
    folder: Path,
    seed: int,
    *,
    documents: int = 100,
    outputs: int = 4,
    two_values: bool = False,
    **settings: Any,
) -> PaidRun:
    """A run in a world where reasoning helps, each of whose labels has a comment that names it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from simulated_server import MODELS, SimulatedServer
        from simulated_worlds import TRAITS_BY_WORLD, World
    finally:
        sys.path.remove(str(BENCHMARKS))
    judge = TRAITS_BY_WORLD["reasoning helps"]
    shape = {"n_documents": documents, "n_systems": outputs, "two_values": two_values}
    world = World(name="reasoning helps", seed=seed, judge=judge, **shape)
    labels, dimension = world.write(folder)
    rows = [row | {"human_feedback": f"CRITIQUE-{row['id']}."} for row in read_jsonl(labels)]
    write_jsonl(labels, rows)
    server, bodies = SimulatedServer(world), list[Mapping[str, Any]]()
    answer = server.answer
    server.answer = lambda body: bodies.append(body) or answer(body)
    flags = {"dimension": str(dimension), "data": str(labels), "cache": "none"}
    flags |= {**MODELS, **settings}
    models = {
        name: SimulatedModel(server, name.partition("/")[2])
        for name in (flags["lm"], flags["proposer_lm"])
    }
    _, result = tune_in_folder(
        Settings(**flags), folder / "run", print_line=lambda line: None, opened_models=models
    )
    trials = read_jsonl(folder / "run" / "trials.jsonl")
    return PaidRun(result.to_json(), trials, server.dollars, bodies, flags)
