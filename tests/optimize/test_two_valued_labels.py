"""From labels of two words to a judge that answers with them, without a definition."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import dspy
import numpy as np
import pytest
from jsonl import write_jsonl

import judges
import optimize
from judges.dimension import Dimension, UnknownDimensionError
from judges.judgement import Judgement
from judges.labels.types import LabelError
from optimize import verify
from optimize.__main__ import command as tune
from optimize.inputs.flags import SettingsError
from optimize.items import Item, Items
from optimize.measuring.injection import probe
from optimize.rank_optimizer import RankOptimizer
from optimize.search.candidates import nearest_choice
from optimize.search.evidence import JudgedItems
from optimize.statistics.intervals import stream

WORDS = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "yew"]
VERDICT = Dimension(
    name="label",
    definition="whether the output answers",
    inputs={"input": "the question", "output": "the answer to judge"},
    anchors={0: "", 1: ""},
    instruction="Decide.",
    words=("pass", "fail"),
)


def sheet(path: Path, words: Sequence[str] = ("pass", "fail"), number: int = 60) -> Path:
    """Outputs that repeat their input, which are good, or other words."""
    rng = np.random.default_rng(5)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "input", "output", "label", "critique", "topic"])
        for row in range(number):
            asked = list(rng.permutation(WORDS)[:7])
            good = rng.random() < 0.6
            said = asked[:5] if good else list(rng.permutation(WORDS)[:5])
            label = words[0 if good else 1]
            texts = [f"{' '.join(asked)} {row}?", f"{' '.join(said)}."]
            writer.writerow([row, *texts, label, "SECRET critique", "trees"])
    return path


def test_a_sheet_of_pass_and_fail_gives_a_judge_of_these_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sheet(tmp_path / "sheet.csv")
    run = optimize.tune("label", file, out=tmp_path / "run")
    said = capsys.readouterr().err
    assert "label: 'pass' is a pass and counts 1, 'fail' a fail and 0" in said
    assert "label has no definition" in said
    assert "it reads input and output" in said
    assert "A definition of one line helps about as much as tuning: --dimension 'label=...'" in said
    judge = run.judge
    assert isinstance(judge.subject, Dimension)
    assert (judge.subject.words, judge.texts) == (("pass", "fail"), ("input", "output"))
    kept = (tmp_path / "run" / "judge.json").read_text() + str(judge.template())
    assert "SECRET" not in kept
    assert run.summary["level"] == "dataset"
    measured = verify.measure(judge, file)
    assert set(measured.scored.human) == {0, 1}
    assert 0 <= measured.scored.scores.min() <= measured.scored.scores.max() <= 1


def test_a_judge_says_pass_where_labels_have_no_words_that_it_could_say(tmp_path: Path) -> None:
    run = optimize.tune("label", sheet(tmp_path / "s.csv", "10"), out=tmp_path / "r", quiet=True)
    assert isinstance(run.judge.subject, Dimension)
    assert run.judge.subject.words == ("pass", "fail")


def test_a_name_that_nobody_knows_stays_unknown_without_two_values(tmp_path: Path) -> None:
    file = sheet(tmp_path / "sheet.csv")
    with pytest.raises(UnknownDimensionError, match="near it: relevance"):
        optimize.tune("relevnce", file, quiet=True)
    with pytest.raises(UnknownDimensionError, match=r"no judge 'label'.* --dimension 'label=...'"):
        optimize.tune("label", sheet(tmp_path / "marks.csv", "52"), quiet=True)


def test_one_line_defines_labels_of_two_words_and_ratings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, says, scale in (
        (("pass", "fail"), "pass or fail", (0, 1)),
        # 1-5 is the narrowest usual scale with a 2 and a 5.
        ("52", "a rating from 1 to 5 (--scale)", (1, 2, 3, 4, 5)),
    ):
        file = sheet(tmp_path / f"{words[0]}.csv", words)
        run = optimize.tune("label=whether it repeats", file, out=tmp_path / words[0])
        note = f"label is judged by your definition; it reads input and output, and answers {says}"
        assert note in capsys.readouterr().err
        assert isinstance(run.judge.subject, Dimension)
        assert (run.judge.name, run.judge.subject.scale) == ("label", scale)
        assert "Judge the label: whether it repeats." in str(run.judge.template())
    scaled = optimize.tune("label=x y", file, out=tmp_path / "s", scale="0-10", quiet=True).judge
    assert scaled.subject.scale == tuple(range(11))


def test_a_definition_of_nothing_is_refused_with_the_way_out(tmp_path: Path) -> None:
    file = sheet(tmp_path / "sheet.csv")
    for spec, source in (("label=...", file), ("label=", file), ("label=Whether.", None)):
        with pytest.raises(SettingsError, match="label=LINE defines labels of your own"):
            optimize.tune(spec, source, quiet=True)
    shares = sheet(tmp_path / "shares.csv", ("0.7", "0.2"))
    with pytest.raises(LabelError, match="add --scale any"):
        optimize.tune("label=Whether.", shares, quiet=True)


@pytest.mark.parametrize("words", [("pass", "fail"), ("pass", "pass")])
def test_words_on_a_judge_that_rates_are_refused_with_the_way_out(
    tmp_path: Path, words: tuple[str, str]
) -> None:
    file = sheet(tmp_path / "sheet.csv", words)
    columns = {"relevance": "label", "document": "input", "summary": "output"}
    with pytest.raises(LabelError, match="relevance is rated from 1 to 5, and the labels") as error:
        optimize.tune("relevance", file, map=columns, quiet=True)
    assert "--dimension relevance_pass --map relevance_pass=label" in str(error.value)
    assert "--values 'pass=5,fail=1'" in str(error.value)


def test_ratings_on_a_judge_of_two_words_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(LabelError, match=r"say which count as pass, as in --values 5=1"):
        verify.measure(judges.Judge.of(VERDICT), sheet(tmp_path / "sheet.csv", "52"))
    with pytest.raises(LabelError, match=r"a label counts 0\.5; .* --values 0\.5=1"):
        verify.measure(judges.Judge.of(VERDICT), sheet(tmp_path / "sheet.csv", ("1", "0.5")))


def test_labels_that_turn_the_judges_words_round_are_refused(tmp_path: Path) -> None:
    turned = {"pass": 0, "fail": 1}
    with pytest.raises(LabelError, match="'fail' counts 1 and 'pass' 0 by --values"):
        verify.measure(judges.Judge.of(VERDICT), sheet(tmp_path / "sheet.csv"), values=turned)


def test_labels_want_a_file_and_differ_and_a_judges_own_words_need_no_flag(tmp_path: Path) -> None:
    with pytest.raises(UnknownDimensionError, match="no --data FILE names labels, and no judge"):
        optimize.tune("label", quiet=True)
    with pytest.raises(LabelError, match="no labels on label: name your labels by --data FILE"):
        verify.measure(judges.Judge.of(VERDICT))
    with pytest.raises(LabelError, match="every label on label is pass: there is nothing to learn"):
        optimize.tune("label", sheet(tmp_path / "pass.csv", ("pass", "pass")), quiet=True)
    own = judges.Judge.of(replace(VERDICT, words=("clean", "flagged")))
    assert verify.measure(own, sheet(tmp_path / "own.csv", ("clean", "flagged"))).scored.is_binary


def test_zeros_and_ones_on_a_longer_scale_are_ratings(tmp_path: Path) -> None:
    longer = replace(VERDICT, words=None, anchors=dict.fromkeys(range(11), ""))
    path = tmp_path / "sheet.csv"
    path.write_text("id,input,output,a,b\n1,Ask.,Say.,0,1\n2,Ask 2.,Say 2.,1,1\n")
    measured = verify.measure(judges.Judge.of(longer), path, map={"label": ["a", "b"]})
    assert list(measured.scored.human) == [0.5, 1]


def test_recorded_replies_of_words_are_read_where_labels_have_two_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = sheet(tmp_path / "sheet.csv")
    with file.open(newline="") as rows:
        lines = [
            f'{{"id": "{row["id"]}", "replies": ["Verdict: {row["label"]}"]}}'
            for row in csv.DictReader(rows)
        ]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    ask = ["--replies", str(tmp_path / "replies.jsonl"), "--dimension", "label"]
    assert verify.command([*ask, "--data", str(file), "--quiet"]) == 0
    assert "it misses 0 of 22 fails" in capsys.readouterr().out


def test_a_third_annotator_with_few_labels_hides_no_agreement(tmp_path: Path) -> None:
    # Carl's two labels are alike, so that he has no kappa with Anna or Ben.
    rows = ["yes,yes,yes"] * 2 + ["yes,yes,"] * 4 + ["no,no,"] * 4
    lines = [f"{n},Ask {n}.,Say {n}.,{row}" for n, row in enumerate(rows)]
    path = tmp_path / "sheet.csv"
    path.write_text("\n".join(["id,input,output,Anna,Ben,Carl", *lines]))
    columns = {"label": ["Anna", "Ben", "Carl"]}
    measured = verify.measure(judges.Judge.of(VERDICT), path, map=columns)
    first, *_ = measured.labelled.notes
    assert first == "label: two annotators say the same in 100% of 14 cases, kappa 1.00"


def test_annotators_agreement_is_that_before_ties_are_left_out(tmp_path: Path) -> None:
    rows = ["yes,yes"] * 6 + ["no,no"] * 2 + ["yes,no", "no,yes"]
    lines = [f"{n},Ask {n}.,Say {n}.,{row}" for n, row in enumerate(rows)]
    path = tmp_path / "sheet.csv"
    path.write_text("\n".join(["id,input,output,Anna,Ben", *lines]))
    columns = {"label": ["Anna", "Ben"]}
    measured = verify.measure(judges.Judge.of(VERDICT), path, map=columns)
    # Eight of ten alike; by chance .7 * .7 + .3 * .3 = .58, and (.8 - .58) / .42 = .52.
    first, *_, last = measured.labelled.notes
    assert first == "label: two annotators say the same in 80% of 10 cases, kappa 0.52"
    assert last == "label: left out, since equally many annotators gave either value: 2"
    assert measured.summary()["data"]["n_outputs"] == 8
    # On the eight that are left they agree in all, which says nothing of them.
    assert "people" not in measured.summary()


def items(*human: float, ratings: tuple[float, ...] = ()) -> Items:
    texts = [{"input": "Ask.", "output": f"Say {place}."} for place in range(len(human))]
    return Items(
        tuple(
            Item(id=f"{n}", document_id=f"{n}", system=None, texts=t, human=h, ratings=ratings)
            for n, (h, t) in enumerate(zip(human, texts, strict=True))
        )
    )


def test_a_lesson_speaks_of_verdicts_and_not_of_places() -> None:
    scores = (0.9, 0.8, 0.2, 0.1)
    judged = JudgedItems(
        items(1, 0, 1, 0, ratings=(1, 1, 0)),
        [Judgement(score=score) for score in scores],
        VERDICT.prompt(),
    )
    (lesson,) = judged.evidence([stream(0, "lesson")])
    assert "Of 2 that people call fail, the judge says pass of 1;" in lesson
    assert "of 2 that people call pass, it says fail of 1." in lesson
    shown = [line for line in lesson.splitlines() if line.startswith("- people")]
    assert {line.partition("; ")[2] for line in shown} < {
        *("judge pass (pass 90%): right", "judge pass (pass 80%): wrong"),
        *("judge fail (pass 20%): wrong", "judge fail (pass 10%): right"),
    }
    assert all("(2 of 3 say pass)" in line for line in shown)


def test_a_demonstration_of_a_label_is_its_word() -> None:
    assert [nearest_choice(("pass", "fail"), n) for n in (1, 0.6, 0.5, 0)] == [
        *("pass", "pass", "fail", "fail")
    ]


def test_probes_attack_a_judge_of_two_words() -> None:
    judge = judges.Judge.of(VERDICT)
    everything = items(*[0.0] * 8)
    with judge.open_client() as client:
        probes = probe(judge, client, everything, np.full(8, 0.1), seed=0)
    assert all(shift.n_outputs for _, shift in probes.shifts)


def test_a_program_of_two_words_is_tuned_on_labels_of_either_form() -> None:
    program = judges.Judge.of(VERDICT).program()
    rng = np.random.default_rng(3)
    rows = []
    for row in range(40):
        good = bool(rng.random() < 0.5)
        texts = {"input": f"{' '.join(WORDS)} {row}", "output": WORDS[0] if good else "nothing"}
        label = ("pass" if good else "fail") if row % 2 else float(good)
        rows.append(dspy.Example(**texts, human=label).with_inputs("input", "output"))
    compiled = RankOptimizer(quiet=True).compile(program, trainset=rows)
    assert compiled(input="Ask.", output="Say.").verdict in ("pass", "fail")
    assert compiled.detailed_results.summary["level"] == "dataset"


def test_pairs_on_what_nobody_defined_make_a_comparison_by_its_name_or_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"prompt": f"Question {n}?", "response_a": f"Answer {n}.", "response_b": f"Reply {n}."}
        | {"winner": "AB"[n % 2]}
        for n in range(40)
    ]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    for spec, asked in (("tone", 'on "tone"'), ("tone=which is kinder", "which is kinder")):
        flags = ["--pairwise", spec, "--data", str(tmp_path / "pairs.jsonl")]
        assert tune([*flags, "--out", str(tmp_path / asked[-4:-1])]) == 0
        assert "and answers which is better" in capsys.readouterr().err
        judge = judges.load(tmp_path / asked[-4:-1])
        assert (judge.name, judge.kind) == ("tone", "pairwise")
        assert asked in str(judge.template())
