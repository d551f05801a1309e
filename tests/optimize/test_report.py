"""Reports: whole for whole data, honest for poor data, inert for hostile data."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from optimize.run.evidence import disagreements
from report_cases import PROBES, outputs, pairs, plain, result, run_page, text_of

from judges.judgement import Judgement
from optimize.injection import Probes
from optimize.measuring.scored import Scored
from optimize.report import verification_report

NAN = math.nan
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`<!-- $x$ \\frac"

ONE_DOCUMENT = outputs([1, 2, 3], [[2], [1], [3]], ["d"] * 3)
DEGENERATE = {
    "one document": ONE_DOCUMENT,
    "one output": outputs([3], [[4]], ["d"]),
    "constant people": outputs([1, 2, 3, 4], [[3]] * 4, ["a", "a", "b", "b"]),
    "constant judge": outputs([3] * 4, [[1], [2], [1], [2]], ["a", "a", "b", "b"]),
    "both constant": outputs([3] * 4, [[3]] * 4, ["a", "a", "b", "b"]),
    "all failed": outputs([NAN] * 4, [[1], [2], [1], [2]], ["a", "a", "b", "b"]),
    "one score": outputs([NAN, 2, NAN, NAN], [[1], [2], [1], [2]], ["a", "a", "b", "b"]),
    "two systems": outputs(
        [1, 2, 3, 4], [[1], [2], [2], [4]], ["a", "a", "b", "b"], systems=["x", "y"] * 2
    ),
    "no systems": outputs([1, 2, 4, 3, 2], [[1], [2], [3], [1], [5]], list("aabbb")),
    "one output a document": outputs(
        [1, 2, 4, 3], [[1], [2], [3], [1]], list("abcd"), level="dataset"
    ),
    "annotators who agree on all": outputs(
        [1, 2, 3, 4], [[3, 3]] * 4, list("aabb"), annotators=("m", "n")
    ),
    "another scale": outputs([1, 2, 3, 4], [[0], [0.5], [0.2], [1]], list("aabb")),
    "no scale": outputs([0.1, 0.2, 0.3, 0.4], [[1], [2], [5], [1]], list("aabb"), scale=()),
    "empty texts": outputs([1, 2], [[1], [2]], ["a", "a"], texts={"summary": ""}),
    "pairs": pairs([("A", "B"), ("B", "B"), (None, None)], [("A",), ("B",), ("tie",)]),
    "pairs that all failed": pairs([(None, None)] * 2, [("A",), ("B",)]),
    "pairs that are all ties": pairs([("A", "B")] * 2, [("tie",)] * 2),
    "one pair": pairs([("A", "A")], [("A",)]),
}


# Drawing takes most of a report's time; the others look at words and numbers alone.
LOOKED_AT = {
    "test_poor_data_give_a_report_that_says_so",
    "test_hostile_texts_names_and_reasons_stay_text",
    "test_a_run_s_report_says_everything_that_was_promised",
}


@pytest.fixture(autouse=True)
def _drawings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the drawings out where no test looks at them."""
    if request.function.__name__ not in LOOKED_AT:
        monkeypatch.setattr("optimize.report.charts._svg", lambda *_, **__: "<svg></svg>")


def tags_of(page: str) -> set[str]:
    found = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)
            found.update(f"{tag} {name}" for name, _ in attrs if name.startswith("on"))

    Reader().feed(page)
    return found


def page_of(evidence: Scored, probes: Probes | None = None) -> str:
    return verification_report.render(
        result(evidence), evidence, probes or Probes(reason="not now")
    )


def test_a_run_s_report_says_everything_that_was_promised() -> None:
    text = text_of(run_page(plain()))
    for heading in (
        "What to do next", "Results", "People among themselves", "Judge and people",
        "Worst disagreements", "Failed judgements", "Injection probes", "All levels", "Prompt",
        "Provenance and cost",
    ):  # fmt: skip
        assert heading in text
    assert re.search(r"relevance summary-level rho 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] n=12 docu", text)
    assert "The judge: It says what matters." in text
    assert "1 of 60 outputs have no score" in text
    assert "no rating in the reply" in text
    assert "unknown: no list price for this model" in text
    assert "Share of the human ceiling: 0." in text
    assert "judge and ann" in text
    assert run_page(plain()) == run_page(plain())


@pytest.mark.parametrize("name", DEGENERATE)
def test_poor_data_give_a_report_that_says_so(name: str) -> None:
    evidence = DEGENERATE[name]
    shipped = "tuned" if name < "m" else "seed"
    page = run_page(evidence, shipped=shipped, probes=Probes(reason="not now"))
    assert not (found := re.search(r".{0,60}\b(nan|NaN|None|inf)\b.{0,20}", page)), found
    assert "What to do next" in text_of(page)
    assert "Not probed: not now." in text_of(page)
    # A sentence taken for a list of sentences comes out letter by letter.
    for text in (text_of(page), text_of(page_of(evidence))):
        assert not (spelled := re.search(r"(?:\S ){6,}", re.sub(r"[^\w ]", "", text))), spelled


def test_what_cannot_be_told_is_named() -> None:
    assert "gave no score at all" in text_of(page_of(DEGENERATE["all failed"]))
    assert "There is no rho" in text_of(page_of(DEGENERATE["both constant"]))
    # People do tell these apart: the judge's silence counts 0.
    assert "summary-level rho 0.000" in text_of(page_of(DEGENERATE["constant judge"]))
    assert "to its rho" not in text_of(page_of(DEGENERATE["both constant"]))
    assert "No output has a score, so no level has a value" in text_of(
        page_of(DEGENERATE["all failed"])
    )
    assert "gave no score at all, so there is nothing to report" in text_of(
        page_of(DEGENERATE["pairs that all failed"])
    )
    assert "people decided none of the pairs" in text_of(
        page_of(DEGENERATE["pairs that are all ties"])
    )
    assert "The human ceiling is unknown" in text_of(page_of(DEGENERATE["no systems"]))
    assert "another scale than the judge" in text_of(page_of(DEGENERATE["another scale"]))


def test_where_people_tell_nothing_apart_there_is_no_disagreement() -> None:
    # People say 3 of everything in document a; in b the judge has the two the wrong way round.
    evidence = outputs([1, 5, 2, 3], [[3], [3], [5], [4]], list("aabb"))
    text = text_of(page_of(evidence))
    assert text.count("of 1 places") == 2
    assert "judge 5.00, people 3.00" not in text
    assert "No disagreement can be told" in text_of(page_of(DEGENERATE["constant people"]))


def test_hostile_texts_names_and_reasons_stay_text() -> None:
    evidence = outputs(
        [1, 5, 2, 4, NAN],
        [[5, 5], [1, 1], [4, 5], [2, 1], [3, 3]],
        [HOSTILE] * 5,
        systems=[HOSTILE, HOSTILE + "2", "b", "c", "d"],
        annotators=(HOSTILE, HOSTILE + "3"),
        dimension=HOSTILE,
        texts={"document": HOSTILE, "summary": HOSTILE},
        judgements=[
            *(Judgement(score=score, rationale=HOSTILE) for score in (1, 5, 2, 4)),
            Judgement.failed(HOSTILE),
        ],
    )
    hostile = replace(PROBES, documents=(HOSTILE,) * 3)
    verified = result(evidence, HOSTILE)
    page = verification_report.render({**verified, "judge": HOSTILE}, evidence, hostile, lm=HOSTILE)
    clean = tags_of(page_of(plain()))
    run = run_page(evidence)
    for drawn in (page, run):
        assert "<script" not in drawn
        assert not {tag for tag in tags_of(drawn) if " on" in tag}
        assert tags_of(drawn) <= clean | {"ins", "del"}
        assert "alert(1)" in text_of(drawn)
    # The CSP stands before anything that came from outside.
    assert page.index("default-src 'none'") < page.index("alert(1)")


def test_pairs_report_accuracy_flips_and_position() -> None:
    # Decided by people: p0 A, p1 B, p2 A. The judge: A in both orders, the place shown first,
    # which is a tie and half right, and B in both. So 1.5 of 3, one flip of 3.
    evidence = pairs(
        [("A", "A"), ("A", "B"), ("B", "B"), (None, None)], [("A",), ("B",), ("A",), ("B",)]
    )
    text = re.sub(r"\s+", " ", text_of(page_of(evidence)))
    assert "The judge prefers the same side as people in 50% of the pairs that they decided" in text
    assert "25.0% of the pairs have no score (1 of 4 failed)" in text
    assert "of 4, 2 documents (1 ties by the judge, half right; 1 failed)" in text
    assert re.search(r"accuracy 0\.500 \[[^]]*\] 3", text)
    assert "order flips 0.333 3" in text
    assert "position bias 0.333" in text
    assert "above 0: it favours what is shown first" in text


def test_a_run_on_pairs_leads_with_both_judges_accuracy() -> None:
    evidence = pairs([("A", "A"), ("B", "B"), ("B", "B")], [("A",), ("B",), ("A",)])
    text = re.sub(r"\s+", " ", text_of(run_page(evidence)))
    # Right on two of three, by either judge: they say the same.
    assert "The tuned judge prefers the same side as people in 67% of the pairs" in text
    assert len(re.findall(r"test (?:untuned|tuned) 0\.667", text)) == 2
    assert "Accuracy: of the pairs that people decided, the share on which the judge" in text


def test_the_worst_disagreement_comes_first_and_its_side_is_right() -> None:
    evidence = outputs([1, 2, 3, 4], [[1], [4], [3], [2]], ["d"] * 4)
    # Places differ by 0, -2, 0 and +2 of 3.
    assert disagreements(evidence) == [(1, pytest.approx(-2 / 3)), (3, pytest.approx(2 / 3))]
    assert "too low by 2 of 3 places: judge 2.00, people 4.00" in text_of(page_of(evidence))


def test_a_figure_has_one_interval_wherever_a_page_has_it() -> None:
    evidence = plain()
    judgements = list(evidence.judgements)
    # One document on which the judge says one thing makes the published convention another figure.
    judgements[5:10] = [Judgement(score=3.0)] * 5
    evidence = replace(evidence, judgements=tuple(judgements))
    text = " ".join(text_of(run_page(evidence)).split())
    published = re.search(r"summary-level rho (\S+) (\[\S+ \S+\]) n=11 documents[^;]*; as", text)
    assert published is not None
    assert f"{published[1]} {published[2]} 59 11 1 1" in text
