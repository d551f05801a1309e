"""What a search may spend under --max-calls and --max-cost."""

from typing import Any

import pytest

from judges.catalog import find
from judges.dimension import Dimension
from judges.judge import Judge
from optimize.run.labels import Labels, split_labels
from optimize.run.run_budget import DEFAULT_CALLS, FREE_CALLS, divide_budget, left_for_probes
from optimize.run.settings import Settings, SettingsError
from optimize.search.candidates import Candidate, DemoSet
from optimize.search.problem import SearchOptions

SUBJECT = find("relevance")
assert isinstance(SUBJECT, Dimension)
JUDGE = Judge.of(SUBJECT)


@pytest.fixture(scope="module")
def labels() -> Labels:
    return split_labels(Settings(dimension="relevance"), SUBJECT)


def settings(**told: Any) -> Settings:
    return Settings(dimension="relevance", **told)


def test_a_search_ends_by_itself(labels: Labels) -> None:
    assert divide_budget(settings(), labels, JUDGE, 1).search.max_calls == FREE_CALLS
    paid = divide_budget(settings(lm="openai/gpt-4.1-mini"), labels, JUDGE, 1)
    assert paid.search.max_calls == DEFAULT_CALLS


def test_the_final_table_is_paid_first(labels: Labels) -> None:
    assert labels.unseen is not None
    once = len(labels.test) + len(labels.unseen)
    left = divide_budget(settings(max_calls=1000), labels, JUDGE, 1).search.max_calls
    # Both judges on test, and a twentieth for replies that have to be asked for again.
    assert left == 950 - 2 * once
    with pytest.raises(SettingsError, match=f"takes {once}"):
        divide_budget(settings(max_calls=once - 1), labels, JUDGE, 1)


def test_dollars_are_told_in_calls(labels: Labels) -> None:
    lm = "openai/gpt-4.1-mini"
    few = divide_budget(settings(lm=lm, max_cost=1.0), labels, JUDGE, 1).search.max_calls
    more = divide_budget(settings(lm=lm, max_cost=2.0), labels, JUDGE, 1).search.max_calls
    assert 0 < few < more <= DEFAULT_CALLS
    with pytest.raises(SettingsError, match="--max-cost"):
        divide_budget(settings(lm=lm, max_cost=0.001), labels, JUDGE, 1)


def test_a_call_that_shows_demonstrations_counts_as_many_as_it_costs(labels: Labels) -> None:
    given = divide_budget(settings(lm="openai/gpt-4.1-mini", max_cost=1.0), labels, JUDGE, 1)
    assert given.search.weight is not None
    bare = Candidate(instruction="Rate it.")
    text = "w " * 10_000
    shown = DemoSet(demos=({"document": text, "summary": "s", "rating": 3},))
    assert given.search.weight(bare) == 1
    assert given.search.weight(Candidate(instruction=bare.instruction, demo_set=shown)) > 3
    assert given.search.proposal > 1


def test_what_a_candidate_may_show_grows_with_the_dollars(labels: Labels) -> None:
    lm = "openai/gpt-4.1-mini"
    limits = [0.15, 0.5, 2.0, 8.0, 100.0]
    options = [
        divide_budget(settings(lm=lm, max_cost=limit), labels, JUDGE, 1).options for limit in limits
    ]
    lengths = [option.longest_demos for option in options]
    assert lengths == sorted(lengths)
    # A demonstration that is paid for with every row is no finalist before it has raced ...
    assert not any(option.show_all for option in options)
    # ... and where hardly one can be paid for, none is drawn.
    assert (options[0].demo_sets, options[-1].demo_sets) == (0, SearchOptions().demo_sets)
    assert lengths[-1] == SearchOptions().longest_demos


def test_probes_get_what_is_left() -> None:
    assert left_for_probes(settings(), 500) is None
    assert left_for_probes(settings(max_calls=1000), 500) == 450
