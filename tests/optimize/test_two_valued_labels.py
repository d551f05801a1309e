"""From labels to a judge without a definition: the texts that it reads, and its two words."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_runs import output_of
from files import write_jsonl

import judges
from dspy_judges.errors import SettingsError
from judges.dimension import Dimension, UnknownDimensionError
from judges.judgement import Judgement
from judges.labels.types import LabelError
from optimize import check, measure, tune
from optimize.inputs.labelled import LabelSource
from optimize.inputs.subjects import subject_from_labels
from optimize.items import Item, Items
from optimize.search.evidence import JudgedItems
from optimize.statistics.intervals import random_generator
from optimize.tuning.preparation import prepare_run
from optimize.tuning.settings import read_settings
from optimize.verify import command as verify

PASS = ("pass", "fail")
WORDS = ["alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "yew"]
VERDICT = Dimension(
    name="label",
    definition="whether the output answers",
    inputs={"input": "the question", "output": "the answer to judge"},
    anchors={0: "", 1: ""},
    instruction="Decide.",
    words=PASS,
)


def sheet(path, words=PASS, number=60):
    """Outputs that repeat their input, which are good, or other words."""
    rng = np.random.default_rng(5)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "input", "output", "label", "critique", "topic"])
        for row in range(number):
            question = list(rng.permutation(WORDS)[:7])
            good = rng.random() < 0.6
            answer = question[:5] if good else list(rng.permutation(WORDS)[:5])
            label = words[0 if good else 1]
            texts = [f"{' '.join(question)} {row}?", f"{' '.join(answer)}."]
            writer.writerow([row, *texts, label, "SECRET critique", "trees"])
    return path


def test_a_spreadsheet_of_two_words_gives_a_verdict_judge(tmp_path, capsys):
    file = sheet(tmp_path / "sheet.csv")
    run = tune("label", file, out=tmp_path / "run")
    err = capsys.readouterr().err
    assert "label: 'pass' is a pass (1), and 'fail' is a fail (0)" in err
    assert "label has no definition" in err
    assert "it reads input and output" in err
    assert "A definition of one line helps about as much as tuning: dimension='label=...'" in err
    judge = run.judge
    assert (judge.subject.words, judge.texts) == (("pass", "fail"), ("input", "output"))
    content = (tmp_path / "run" / "judge.json").read_text() + str(judge.template())
    assert "SECRET" not in content
    assert run.summary["level"] == "dataset"
    lines = str(run).splitlines()
    assert len(lines) <= 24
    for start in ("Fails caught (TNR): ", "test, untuned"):
        assert any(line.startswith(start) for line in lines)
    card = run.summary["two_values"]["test"][f"{run.summary['shipped']}_judge"]
    n_misses = card["confusion"]["fail_pass"] + card["confusion"]["pass_fail"]
    with (run.folder / "misses.csv").open(encoding="utf-8", newline="") as misses:
        assert len([*csv.DictReader(misses)]) == n_misses
    result = measure(judge, file)
    assert set(result.scored.human) == {0, 1}
    assert 0 <= result.scored.scores.min() <= result.scored.scores.max() <= 1


@pytest.mark.parametrize(
    ("dimension", "words", "settings", "says", "scale"),
    [
        # Labels have no words that a judge could say.
        ("label", "10", {}, "label has no definition", (0, 1)),
        ("label=whether it repeats", PASS, {}, "answers pass or fail", (0, 1)),
        # 1-5 is the narrowest usual scale with a 2 and a 5.
        (
            "label=whether it repeats",
            "52",
            {},
            "answers a rating from 1 to 5 (--scale)",
            range(1, 6),
        ),
        ("label=whether it repeats", "52", {"scale": "0-10"}, "a rating from 0 to 10", range(11)),
    ],
)
def test_one_line_can_define_a_judge(here, dimension, words, settings, says, scale):
    file = str(sheet(here / "s.csv", words))
    run = prepare_run(read_settings({"dimension": dimension, "data": file, **settings}))
    notes = " ".join(run.labelled_items.notes)
    assert says in notes
    assert (run.subject.name, run.subject.scale) == ("label", tuple(scale))
    assert run.subject.words == (PASS if len(run.subject.scale) == 2 else None)
    if "=" in dimension:
        assert "label is judged by your definition; it reads input and output" in notes
        assert "Judge the label: whether it repeats." in run.untuned_prompt.instruction


COLUMNS = {"relevance": "label", "document": "input", "summary": "output"}
WAYS_OUT = r"rates relevance from 1 to 5, but the labels(?s:.)*"
NEW, VALUES = "--map NAME=COLUMN --dimension NAME", "--values 'pass=5,fail=1'"
TURNED = {"values": {"pass": 0, "fail": 1}}
MINE = judges.Judge.of(VERDICT)
UNDEFINED = "label=LINE is for labels of your own"


@pytest.mark.parametrize(
    ("call", "judge", "words", "settings", "error", "says"),
    [
        (tune, "relevnce", PASS, {}, UnknownDimensionError, "did you mean relevance"),
        (tune, "label", "52", {}, UnknownDimensionError, "rating, dimension='label=.."),
        (tune, "label", None, {}, UnknownDimensionError, "no --data FILE names labels"),
        *((tune, spec, PASS, {}, SettingsError, UNDEFINED) for spec in ("label=...", "label=")),
        (tune, "label=Whether.", None, {}, SettingsError, UNDEFINED),
        (tune, "label=Whether.", ("0.7", "0.2"), {}, LabelError, "add --scale any"),
        *(
            (tune, "relevance", words, {"map": COLUMNS}, LabelError, WAYS_OUT + way)
            for words in (PASS, ("pass", "pass"))
            for way in (NEW, VALUES)
        ),
        (tune, "label", ("pass", "pass"), {}, LabelError, "every label on label is pass: there is"),
        (measure, MINE, "52", {}, LabelError, "say what counts as pass, as in --values 5=1"),
        (measure, MINE, ("1", "0.5"), {}, LabelError, r"a label counts 0\.5; .* --values 0\.5=1"),
        (measure, MINE, PASS, TURNED, LabelError, "'pass' counts 0 and 'fail' 1 by --values"),
        (measure, MINE, None, {}, LabelError, "no labels on label: give yours by --data FILE"),
    ],
)
def test_labels_that_do_not_fit_a_judge_are_refused(
    here, call, judge, words, settings, error, says
):
    file = [sheet(here / "sheet.csv", words)] if words else []
    with pytest.raises(error, match=says):
        call(judge, *file, **settings)


def test_a_judge_is_measured_on_labels_of_any_two_words(here):
    own = judges.Judge.of(replace(VERDICT, words=("clean", "flagged")))
    for words in (("clean", "flagged"), PASS, ("sí", "no")):
        assert measure(own, sheet(here / "labels.csv", words)).scored.has_verdicts


def test_zeros_and_ones_on_a_longer_scale_are_ratings(here):
    longer = replace(VERDICT, words=None, anchors=dict.fromkeys(range(11), ""))
    result = measure_labels(["0,1", "1,1"], "a", "b", judge=judges.Judge.of(longer))
    assert list(result.scored.human) == [0.5, 1]


def test_recorded_replies_of_words_are_read_where_labels_have_two_values(here, capsys):
    with sheet(here / "sheet.csv").open(newline="") as file:
        rows = [(row["id"], f"Verdict: {row['label']}") for row in csv.DictReader(file)]
    write_jsonl("replies.jsonl", [{"id": name, "replies": [reply]} for name, reply in rows])
    ask = ["--replies", "replies.jsonl", "--dimension", "label", "--data", "sheet.csv"]
    assert verify([*ask, "--quiet"]) == 0
    assert "it misses 0 of 22 fails" in capsys.readouterr().out


def measure_labels(labels, *annotators, judge=MINE):
    """What the judge is beside these annotators' labels of an output each."""
    lines = [f"{n},Ask {n}.,Say {n}.,{row}" for n, row in enumerate(labels)]
    Path("sheet.csv").write_text("\n".join([f"id,input,output,{','.join(annotators)}", *lines]))
    return measure(judge, "sheet.csv", map={"label": [*annotators]})


def test_annotators_agreement_counts_outputs_that_are_left_out_as_ties(here):
    result = measure_labels(["yes,yes"] * 6 + ["no,no"] * 2 + ["yes,no", "no,yes"], "Anna", "Ben")
    # Eight of ten alike; by chance .7 * .7 + .3 * .3 = .58, and (.8 - .58) / .42 = .52.
    first, *_, last = result.labelled.notes
    assert first == "label: two annotators say the same in 80% of 10 cases, kappa 0.52"
    assert last == "label: left out 2 outputs, since equally many annotators gave either value"
    assert result.summary()["data"]["n_outputs"] == 8
    # On the eight that are left they agree in all, which says nothing of them.
    assert "people" not in result.summary()


def test_evidence_on_verdict_judges_names_verdicts_and_no_places():
    texts = [{"input": "Ask.", "output": f"Say {n}."} for n in range(4)]
    items = [
        Item(
            id=f"{n}", document_id=f"{n}", system=None, texts=t, human=1 - n % 2, ratings=(1, 1, 0)
        )
        for n, t in enumerate(texts)
    ]
    judgements = [Judgement(score=score) for score in (0.9, 0.5, 0.2, 0.1)]
    misses = JudgedItems(Items(tuple(items)), judgements, VERDICT.prompt())
    (lesson,) = misses.write_evidence([random_generator(0, "lesson")])
    assert "Of 2 that people call fail, the judge says pass of 1;" in lesson
    assert "of 2 that people call pass, it says fail of 1." in lesson
    lines = [line for line in lesson.splitlines() if line.startswith("- people")]
    assert {line.partition("; ")[2] for line in lines} < {
        *("judge pass (pass 90%): right", "judge pass (pass 50%): wrong"),
        *("judge fail (pass 20%): wrong", "judge fail (pass 10%): right"),
    }
    assert all("(2 of 3 say pass)" in line for line in lines)


@pytest.mark.parametrize(
    ("spec", "question"), [("tone", 'on "tone"'), ("tone=which is kinder", "which is kinder")]
)
def test_a_name_or_one_line_can_define_a_comparison(here, spec, question):
    answers = [{"response_a": f"Answer {n}.", "response_b": f"Reply {n}."} for n in range(40)]
    pairs = [{"prompt": f"Question {n}?", "winner": "AB"[n % 2], **answers[n]} for n in range(40)]
    data = write_jsonl("pairs.jsonl", pairs)
    run = prepare_run(read_settings({"pairwise": spec, "data": data}))
    assert any("and answers which is better" in note for note in run.labelled_items.notes)
    assert (run.subject.name, run.subject.kind) == ("tone", "pairwise")
    assert question in str(run.untuned_prompt.template())


# Which columns a new judge reads.
SECRET = {
    **{"annotator_note": "fine", "model": "m", "pass_rate": "85%", "date": "2026-10-01"},
    **{"trace_id": "a1", "url": "https://x.example/1", "reviewer": "kim", "prompt_tokens": "12"},
}


def texts_of(*, map: dict[str, str] | None = None, **columns: object) -> tuple[str, ...]:
    """What the judge of forty labelled rows reads; {} in a cell is the row's number."""
    rows: list[dict[str, object]] = [
        {name: str(cell).replace("{}", str(n)) for name, cell in columns.items()}
        | {"label": "pass" if n % 3 else "fail"}
        | SECRET
        for n in range(40)
    ]
    subject, _ = subject_from_labels("quality", LabelSource.of(rows, map=map))
    return subject.texts


INPUT, ANSWER = {"input": "{}+{}?"}, {"output": "say {}"}


@pytest.mark.parametrize(
    ("columns", "unread"),
    [
        (INPUT | ANSWER, ""),
        ({"question": "{}?", "answer": "so {}"}, ""),
        ({"prompt": "{}?", "response": "so {}"}, ""),
        ({"query": "{}?", "completion": "so {}"}, ""),
        # What the answer should be is read; of few words it may be the label, and is not.
        *((INPUT | {name: "{}"} | ANSWER, "") for name in ("expected", "ground_truth")),
        *((INPUT | {name: "{}"} | ANSWER, "") for name in ("reference", "correct_answer")),
        *((INPUT | {name: "very good"} | ANSWER, name) for name in ("expected", "reference")),
        # A text that some rows lack is not read.
        ({"question": "{}?", "context": "", "answer": "{}."}, "context"),
        # The id of a document is not a text; an answer may be a word like an id.
        ({"article": "cnn-test-{}4f85", "document": "Text {}.", "summary": "{}."}, "article"),
        ({"question": "{}?", "answer": "order-{}4f85"}, ""),
    ],
)
def test_a_new_judge_reads_no_column_about_labels(columns, unread):
    assert texts_of(**columns) == tuple(name for name in columns if name != unread)


def test_check_names_the_texts_that_a_new_judge_of_pairs_reads(here):
    rows = [
        {"instruction": f"Do {n}.", "app": f"No. {n} of our apps", "input": "x" * (n % 2)}
        | {"response_a": f"A {n}.", "response_b": f"B {n}.", "winner": "AB"[n % 2]}
        for n in range(20)
    ]
    file = write_jsonl("pairs.jsonl", rows)
    read = "id from #row; text instruction; text response_a; text response_b; ratings votes"
    out = " ".join(output_of(check.command, file).split())
    assert f"read {read}" in out
    assert "not read app, input" in out
    subject, _ = subject_from_labels("better=Which?", LabelSource(data=file), is_pairwise=True)
    assert subject.inputs.keys() == {"instruction"}


def test_a_header_of_several_words_is_recognised_by_one_word():
    columns = {"User Input": "Ask {}.", "modelOutput": "Say {}.", "Output Language": "en"}
    assert texts_of(**columns) == ("user_input", "model_output")


def test_if_it_is_unclear_which_text_is_judged_one_flag_tells():
    with pytest.raises(LabelError, match="--map output=answer or --map output=response"):
        texts_of(question="{}?", answer="A {}.", response="Reply {}.")
    with pytest.raises(LabelError, match="--map output=bot_says"):
        texts_of(question="{}?", bot_says="This is a long reply {} to all of it.")
    texts = texts_of(question="{}?", bot_says="Reply {}.", map={"output": "bot_says"})
    assert texts == ("question", "output")
