"""A judge that answers with one of two words: what it asks, reads, scores, and how it is kept."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from prompts import prompted
from scripted_model import Scripted

import judges
from judges.__main__ import main
from judges.client import Client
from judges.dimension import Dimension, DimensionError, untuned_prompt
from judges.judgement import Judgement, NoScoreError
from judges.panel import Member, Panel
from judges.protocol import Completion, Reply, Token
from judges.reading import read
from judges.scoring import ONE, WEIGHTED, SamplingPlan, read_sample, score_of

SAFE = Dimension(
    name="safe",
    definition="whether the answer is safe",
    inputs={"query": "what was asked", "answer": "the answer to judge"},
    anchors={0: "could harm", 1: "harms nobody"},
    instruction="Decide whether the answer is safe.",
    words=("pass", "fail"),
)
EGG = {"query": "How long do eggs boil?", "answer": "Eggs boil ten minutes."}


def verdict(reply: str, words: tuple[str, str] = ("pass", "fail")) -> object:
    return read(reply, replace(SAFE, words=words).prompt().outputs, names=["safe"]).values[
        "verdict"
    ]


def test_the_prompt_asks_for_one_of_the_two_words_the_good_one_first() -> None:
    system, user = SAFE.prompt().template()
    said = "whether the answer is safe (fail = could harm; pass = harms nobody)"
    assert f"- verdict (pass or fail): {said}" in system["content"]
    assert user["content"].endswith("without any working: pass or fail.")


@pytest.mark.parametrize(
    "words", [("A", "B"), ("pass", "Pass"), ("1", "0"), ("👍", "👎"), ("thumbs up", "thumbs down")]
)
def test_what_no_reader_could_tell_apart_is_no_verdict(words: tuple[str, str]) -> None:
    with pytest.raises(DimensionError, match="cannot be a verdict"):
        replace(SAFE, words=words)


@pytest.mark.parametrize(
    "reply",
    [
        *("fail", "**FAIL**", "Verdict: fail", "Fail - it does not pass.", "Fail (not pass)"),
        *('{"verdict": "fail", "reason": "x"}', "The user says pass.\nVerdict: fail"),
        "[[ ## verdict ## ]]\nfail\n\n[[ ## completed ## ]]",
    ],
)
def test_a_verdict_is_read_where_it_is_stated(reply: str) -> None:
    assert verdict(reply) == "fail"


@pytest.mark.parametrize(
    "reply",
    [
        *("Not fail", "It would fail to convince.", "Fail to see a fault. Pass", "pass or fail"),
        *("Pass. This is a fail.", "- pass: harms nobody\n- fail: could harm", "failing", "Pass?"),
        'The user says: "fail"',
    ],
)
def test_a_word_within_a_sentence_is_no_verdict(reply: str) -> None:
    with pytest.raises(NoScoreError):
        verdict(reply)


def test_a_word_that_ends_with_the_other_is_read_whole() -> None:
    words = ("ok", "not ok")
    assert verdict("Not OK: it's not ok", words) == "not ok"
    assert verdict("Verdict: ok", words) == "ok"


def test_a_score_is_1_or_0_of_one_reply_and_the_mean_of_several() -> None:
    prompt, mean = SAFE.prompt(), SamplingPlan(kind="mean", samples=4)
    one = [read_sample(ONE, prompt, Reply(text="fail"))]
    assert (score_of(ONE, one).score, score_of(ONE, one).rating) == (0, 0)
    four = [read_sample(mean, prompt, Reply(text=t)) for t in ("pass", "fail", "pass", "pass")]
    assert score_of(mean, four).score == 0.75
    assert score_of(mean, four).distribution == {0: 0.25, 1: 0.75}


def spelt(*parts: str, **top: float) -> Reply:
    first = Token(parts[0], {text: math.log(p) for text, p in top.items()})
    tokens = (first, *(Token(part, {}) for part in parts[1:]))
    return Reply(text="".join(parts), tokens=tokens)


def test_probabilities_are_those_of_the_words_first_tokens() -> None:
    reply = spelt("Pass", Pass=0.5, passive=0.1, fail=0.2, Maybe=0.1)
    said = score_of(WEIGHTED, [read_sample(WEIGHTED, SAFE.prompt(), reply)])
    # .5 / (.5 + .2): "passive" begins as the word, and is another.
    assert said.score == pytest.approx(5 / 7)
    words = ("correct", "incorrect")
    reply = spelt("in", "correct", **{"in": 0.6, "correct": 0.2, "i": 0.1})
    prompt = replace(SAFE, words=words).prompt()
    assert score_of(WEIGHTED, [read_sample(WEIGHTED, prompt, reply)]).score == pytest.approx(2 / 9)


@pytest.mark.parametrize("threshold", [0.3, 0.42, 0.5, 0.6])
def test_the_rating_of_a_verdict_is_what_its_score_says(threshold: float) -> None:
    class Spelling(Scripted):
        has_logprobs = True

        async def complete(self, *_: object) -> Completion:
            # The likeliest spelling is "Pass", and .58 are on the two of "fail".
            reply = spelt("Pass", Pass=0.42, fail=0.3, Fail=0.28)
            return Completion(1, 1, replies=(reply,), model="m")

    judge = replace(judges.Judge.of(SAFE), plan=WEIGHTED, threshold=threshold)
    (said,) = judge.judge_rows([EGG], Client(Spelling()))
    assert isinstance(said, Judgement)
    assert said.rating == (said.score >= 0.5) == (threshold <= 0.42)


def test_the_file_and_the_program_are_of_the_same_judge(tmp_path: Path) -> None:
    judge = judges.Judge.of(SAFE)
    kept = judges.load(judge.save(tmp_path / "safe.json"))
    assert (kept.subject, kept.prompt, kept.kind) == (SAFE, judge.prompt, "verdict")
    assert kept(**EGG).score == judge(**EGG).score
    program = kept.program()
    said = program(**EGG).verdict
    assert said == ("pass" if judge(**EGG).score > 0.5 else "fail")
    assert judges.Judge.from_program(program, SAFE).prompt == judge.prompt


def test_a_demonstration_shows_the_word_and_moves_the_embedded_model() -> None:
    judge = judges.Judge.of(SAFE)
    scores = [
        prompted(judge, demos=({**EGG, "verdict": word},))(**EGG).score for word in ("pass", "fail")
    ]
    assert scores[0] > judge(**EGG).score > scores[1]
    shown = prompted(judge, demos=({**EGG, "verdict": "fail"},)).template()[2]
    assert shown["content"] == "fail"


def test_a_panel_keeps_to_probabilities() -> None:
    far = Member(name="far", weight=1.0, judge=judges.Judge.of(SAFE), slope=5.0, intercept=-9.0)
    assert Panel.join(SAFE, [far])(**EGG).score == 0


YAML = """\
name: safe
definition: whether the answer is safe
inputs: [query, answer]
scale: {scale}
anchors: {anchors}
"""


def test_a_definition_in_a_file_names_the_words_and_what_they_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "safe.yaml"
    path.write_text(YAML.format(scale="[safe, unsafe]", anchors="{unsafe: could harm}"))
    subject = judges.load(path).subject
    assert isinstance(subject, Dimension)
    assert (subject.words, subject.anchors) == (("safe", "unsafe"), {0: "could harm", 1: ""})
    assert untuned_prompt(subject).answer.choices == ("safe", "unsafe")
    assert main(["show", str(path)]) == 0
    assert "verdict; reads query, answer; scale safe/unsafe" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scale", "anchors", "says"),
    [
        ("[yes, no]", "{}", 'write "yes", "no"'),
        ("[pass, fair, fail]", "{}", "one of two words"),
        ("[pass, fail]", "{good: fine}", "one of two words"),
        ("[pass, 0]", "{}", "one of two words"),
    ],
)
def test_a_definition_whose_words_are_none_is_refused(
    tmp_path: Path, scale: str, anchors: str, says: str
) -> None:
    path = tmp_path / "safe.yaml"
    path.write_text(YAML.format(scale=scale, anchors=anchors))
    with pytest.raises(DimensionError, match=says):
        judges.load(path)
