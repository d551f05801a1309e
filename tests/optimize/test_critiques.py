"""What people wrote of their labels teaches, and reaches no judge that it would help to cheat."""

import re
from dataclasses import replace
from typing import Any

import pytest
from behaving_model import Model
from search_world import SEED, Watch, search, world, write_instruction
from simulated_model import paid_run

from judges.prompt import NOT_GIVEN_TEXT
from optimize.items import Items
from optimize.search.candidates import Candidate, draw_demo_set
from optimize.search.problem import SearchOptions
from optimize.statistics.intervals import random_generator
from optimize.tuning.preparation import prepare_run
from optimize.tuning.settings import Settings


def comment_on(items, *ratings):
    """The items with a comment that names each; people's mean is their only rating, or these."""
    return Items(
        tuple(
            replace(item, comment=f"CRITIQUE-{item.id}.", ratings=ratings or (item.human,))
            for item in items
        )
    )


@pytest.mark.parametrize("optimizer", ["rank", "gepa"])
def test_the_proposer_sees_comments_of_its_own_half_only(optimizer):
    train, dev = comment_on(world(16)), comment_on(world(12, first=100))
    watch, model = Watch(), Model(write_instruction)
    settings: Any = {"by": watch, "calls": 1500, "options": SearchOptions(seed=1)}
    search(train, dev, optimizer=optimizer, proposer=model, **settings)
    halves = [{item.id for item in half.items} for half in (train, dev)]
    critiques = [set(re.findall(r"CRITIQUE-(\w+)", prompt)) for prompt in model.prompts]
    assert all(any(ids and ids <= half for ids in critiques) for half in halves)
    assert not any(ids & halves[0] and ids & halves[1] for ids in critiques)
    # A judge without reasons shows none.
    assert "CRITIQUE" not in str([prompt.template() for prompt, _ in watch.requests])


def test_a_demonstration_shows_peoples_comment_as_its_reason():
    items = comment_on(world(3, systems=2))
    draw = draw_demo_set(items, SEED, 6, random_generator(0, "demos"), max_characters=10**6)
    candidate = Candidate(instruction="Rate it.", demo_set=draw)
    assert "CRITIQUE" not in str(candidate.prompt(SEED).template())
    for form in ("brief", "steps"):
        demos = replace(candidate, reasoning=form).prompt(SEED).demos
        assert [demo["rationale"] for demo in demos] == [
            f"CRITIQUE-{item.id}." for item in draw.items
        ]
    silent = Items(tuple(replace(item, comment="") for item in items))
    draw = draw_demo_set(silent, SEED, 6, random_generator(0, "demos"), max_characters=10**6)
    demos = Candidate(instruction="x", demo_set=draw, reasoning="steps").prompt(SEED).demos
    assert {demo["rationale"] for demo in demos} == {NOT_GIVEN_TEXT}


def test_no_request_holds_a_comment_on_test_or_on_the_judged_output(tmp_path):
    run = paid_run(tmp_path, 2, two_values=True, max_cost=2.0)
    ids = {item.id for item in prepare_run(Settings(**run.settings)).held_out.test.items}
    critiques = {run.settings[name].partition("/")[2]: set() for name in ("lm", "proposer_lm")}
    judge_model, _ = critiques
    for body in run.bodies:
        names = set(re.findall(r"CRITIQUE-(\d+)", str(body["messages"])))
        critiques[body["model"]] |= names
        if body["model"] == judge_model:
            *_, name = re.findall(r"\bItem (\d+):", body["messages"][-1]["content"])
            assert name not in names
    assert all(critiques.values())
    assert not set.union(*critiques.values()) & ids
