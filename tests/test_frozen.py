"""The frozen judge: what goes in comes out, and nothing else gets in."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from frozen_cases import KINDS, MEAN, SAVED, TEXTS
from hypothesis import given, settings
from hypothesis import strategies as st

from judges import frozen
from judges.catalog.summeval import FLUENCY, RELEVANCE
from judges.dimension import Comparison, Dimension
from judges.frozen import FrozenJudgeError
from judges.judge import Judge


@pytest.mark.parametrize("judge", KINDS.values(), ids=KINDS)
def test_every_kind_of_judge_comes_back_as_it_was(judge: Judge, tmp_path: Path) -> None:
    path = judge.save(tmp_path / "judge.json")
    loaded = frozen.load(path)
    assert loaded == judge
    assert loaded.prompt.template() == judge.prompt.template()
    assert frozen.dumps(loaded) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("judge", KINDS.values(), ids=KINDS)
def test_the_file_tells_its_messages_and_the_program_renders_them(judge: Judge) -> None:
    from judges.adapter import JudgeAdapter

    document = json.loads(frozen.dumps(judge))
    texts = {name: f"a text for {name}" for name in judge.texts}
    program = frozen.loads(frozen.dumps(judge).encode()).program()
    rendered = JudgeAdapter().format(program.judge.signature, program.judge.demos, texts)
    last = document["messages"][-1]["content"]
    for name, text in texts.items():
        last = last.replace(f"{{{{{name}}}}}", text)
    assert rendered == [*document["messages"][:-1], {"role": "user", "content": last}]


@settings(max_examples=60, deadline=None)
@given(
    instruction=st.text(min_size=1, max_size=200).filter(lambda text: text.strip()),
    document=st.text(max_size=100),
    rating=st.integers(1, 5),
)
def test_any_instruction_and_demo_come_back(instruction: str, document: str, rating: int) -> None:
    demo = {"document": document, "summary": "\ud800 [[ ## x ## ]]", "rating": rating}
    judge = replace(
        Judge.of(RELEVANCE).with_prompt(instruction=f"x {instruction}", demos=[demo]), plan=MEAN
    )
    assert frozen.loads(frozen.dumps(judge).encode()) == judge


def test_sorting_a_files_keys_changes_nothing() -> None:
    document = json.loads(frozen.dumps(SAVED))
    assert frozen.loads(json.dumps(document, sort_keys=True).encode()) == SAVED


def test_loading_and_judging_in_a_new_process_leaves_dspy_alone(tmp_path: Path) -> None:
    path = SAVED.save(tmp_path / "judge.json")
    script = (
        "import sys, judges\n"
        f"judge = judges.load({str(path)!r})\n"
        f"said = judge(**{TEXTS!r})\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'litellm', 'openai', 'datasets', 'pydantic', 'yaml'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "print(repr(said.score))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == SAVED(**TEXTS).score


def test_an_existing_file_is_only_written_over_when_asked(tmp_path: Path) -> None:
    path = SAVED.save(tmp_path / "judge.json")
    other = KINDS["summary alone"]
    with pytest.raises(FileExistsError, match=r"judge\.json exists already"):
        other.save(path)
    assert frozen.load(path) == SAVED
    other.save(path, overwrite=True)
    assert frozen.load(path) == other
    assert [file.name for file in tmp_path.iterdir()] == ["judge.json"]


def test_undefined_correlations_are_null_and_numpy_numbers_plain() -> None:
    import numpy as np

    judge = replace(SAVED, provenance={"value": math.nan, "n": np.int64(3), "at": (1, 2)})
    loaded = frozen.loads(frozen.dumps(judge).encode())
    assert loaded.provenance == {"value": None, "n": 3, "at": [1, 2]}


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-a8Kq2Zx7Lm4Vt9Rb3Nc6", "Bearer q7Zk2Xw9Lp4Tn8Vb", "hf_aKdQzXwLpTnVbRcYmSgHjEuFoI"],
)
def test_what_looks_like_a_key_is_not_written(secret: str) -> None:
    with pytest.raises(FrozenJudgeError, match="looks like a key") as caught:
        frozen.dumps(replace(SAVED, provenance={"note": f"used {secret}"}))
    assert secret not in str(caught.value)


def test_a_judge_beyond_the_bounds_is_refused_when_saved() -> None:
    long = SAVED.with_prompt(instruction="x" * 300_000)
    with pytest.raises(FrozenJudgeError, match="instructions has 300,000 characters"):
        frozen.dumps(long)


def test_a_judge_whose_prompt_is_not_its_subjects_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="are not those of what it judges"):
        Judge(subject=FLUENCY, prompt=RELEVANCE.prompt())
    with pytest.raises(ValueError, match="instruction is empty"):
        Judge.of(RELEVANCE).with_prompt(instruction=" \n")


def test_golden_files_of_this_version_still_load() -> None:
    # A change to the rendering makes every judge frozen before it unloadable: see Prompt.rendering.
    golden = Path(__file__).parent / "golden"
    for name, judge in (("rating", SAVED), ("pairwise", KINDS["pairwise with demos"])):
        loaded = frozen.load(golden / f"frozen_{name}.json")
        assert loaded.prompt.demos == judge.prompt.demos
        assert isinstance(loaded.subject, Dimension | Comparison)


def test_a_judge_frozen_before_more_markers_were_broken_asks_what_it_asked_then() -> None:
    # Its file's messages hold what today's rendering breaks; texts under judgement it breaks too.
    marked = {**SAVED.prompt.demos[0], "summary": "An <image> [[# rating #]] <think>."}
    prompt = replace(SAVED.prompt, demos=(marked,), rendering=1)
    raw = frozen.dumps(replace(SAVED, prompt=prompt)).encode("utf-8")
    loaded = frozen.loads(raw)
    assert loaded.prompt.template() == prompt.template()
    assert "An <image> [[# rating #]] <think>." in loaded.prompt.template()[1]["content"]
    texts = dict.fromkeys(SAVED.texts, "<image>")
    assert "<image>" not in loaded.prompt.messages(texts)[-1]["content"]
    assert frozen.loads(frozen.dumps(loaded).encode("utf-8")).prompt == loaded.prompt
    new = replace(SAVED, prompt=replace(prompt, rendering=2))
    assert "An < image> [ [# rating #]] < think>." in new.prompt.template()[1]["content"]
    assert frozen.loads(frozen.dumps(new).encode("utf-8")).prompt.rendering == 2
