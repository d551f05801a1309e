"""The engine past one machine says, row for row, what a local run says."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from judges.cluster import BatchJudge, _shares, map_in_pandas

import judges
from judges import cluster
from judges.inference.session import open_runner
from judges.judge import Judge

ROWS: list[dict[str, Any]] = [
    {
        "document": f"The council met in room {i} and closed the bridge. Repairs take {i} weeks.",
        "summary": "The bridge is closed." if i % 2 else f"Repairs take {i} weeks, in room {i}.",
    }
    for i in range(2000)
]
ROWS[7] = {"document": "Nothing to judge.", "summary": None}


@pytest.fixture(scope="module")
def judge() -> Judge:
    return judges.load("relevance")


def locally(judge: Judge, rows: list[dict[str, Any]]) -> list[Any]:
    with open_runner(lm="embedded") as runner:
        return list(judge.judge_rows(rows, runner))


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is an extra and not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_and_local_judgements_are_identical(engine: Any, judge: Judge) -> None:
    said = list(cluster.judge_rows(judge, ROWS, workers=2, chunk=300))
    assert len(said) == 2000
    # repr, since NaN differs from itself.
    assert list(map(repr, said)) == list(map(repr, locally(judge, ROWS)))


class RayInThisProcess:
    """What `judge_rows` asks of Ray: actors whose methods answer at once; it says who is left."""

    def __init__(self) -> None:
        self.actors: list[Any] = []

    def remote(self, cls: type) -> Any:
        def create(*args: Any) -> Any:
            worker = cls(*args)
            call = SimpleNamespace(remote=worker.judge_rows)
            self.actors.append(SimpleNamespace(judge_rows=call))
            return self.actors[-1]

        return SimpleNamespace(remote=create)

    def get(self, answer: Any) -> Any:
        return answer

    def kill(self, actor: Any) -> None:
        self.actors.remove(actor)


@pytest.mark.parametrize("n", [0, 1, 99, 100, 1001])
def test_chunks_are_judged_in_order_and_every_worker_is_ended(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    ray = RayInThisProcess()
    monkeypatch.setattr(cluster, "_ray", lambda: ray)
    judgements = list(cluster.judge_rows(judge, iter(ROWS[:n]), workers=3, chunk=100))
    assert list(map(repr, judgements)) == list(map(repr, locally(judge, ROWS[:n])))
    assert ray.actors == []


@pytest.mark.filterwarnings("ignore")
def test_a_ray_dataset_gets_the_local_scores(engine: Any, judge: Judge) -> None:
    import ray.data

    rows = [{"id": i, **row} for i, row in enumerate(ROWS[:200])]
    dataset = cluster.score_dataset(judge, ray.data.from_items(rows), workers=1)
    scored = dataset.to_pandas().sort_values("id", ignore_index=True)
    wanted = [one.score for one in locally(judge, ROWS[:200])]
    assert scored["relevance"].astype(float).tolist() == pytest.approx(wanted, nan_ok=True)
    assert scored["relevance_failure"].notna().sum() == 1


def test_random_orders_are_for_local_runs(judge: Judge) -> None:
    with pytest.raises(ValueError, match="both orders"):
        next(cluster.judge_rows(judge, ROWS, order="random"))


def test_a_batch_and_a_spark_partition_get_columns_on_their_own_index(judge: Judge) -> None:
    frame = pd.DataFrame(ROWS[:20], index=range(100, 120))
    wanted = [one.score for one in locally(judge, ROWS[:20])]
    (partition,) = map_in_pandas(judge)(iter([frame]))
    for judged in (BatchJudge(judge)(frame), partition):
        assert list(judged.columns) == [*frame.columns, "relevance", "relevance_failure"]
        assert judged["relevance"].tolist() == pytest.approx(wanted, nan_ok=True)
        assert list(judged.index) == list(frame.index)
        assert "no summary" in judged["relevance_failure"][107]


def test_workers_with_one_journal_hold_their_shares_each(judge: Judge, tmp_path: Path) -> None:
    opening: Any = {"journal": tmp_path / "replies.jsonl", "max_calls": 3}
    workers = [BatchJudge(judge, 0, opening) for _ in range(2)]
    for worker in workers:
        with worker.session:
            assert worker.session.budget.max_calls == 3


def test_workers_share_the_budget() -> None:
    assert _shares({"max_calls": 101, "max_cost": 3.0}, 2) == {"max_calls": 50, "max_cost": 1.5}
    assert _shares({}, 2) == {}


def test_without_ray_the_way_to_get_it_is_told(judge: Judge, monkeypatch: Any) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"ray\[data\]"):
        next(cluster.judge_rows(judge, ROWS))
