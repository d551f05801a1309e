"""Strict parsing: each accepted form, and each refusal with the reply kept."""

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judges.parsing.parse import parse_choice, parse_fields, parse_rating, parse_score

from judges.judgement import NoScoreError
from judges.prompt import Field

SCALE = range(1, 6)
RATIONALE = Field(name="rationale", description="", role="output")
RATING = Field(name="rating", description="", role="output", choices=tuple(SCALE))
COMPARISON = Field(name="comparison", description="", role="output")
PREFERRED = Field(name="preferred", description="", role="output", choices=("A", "B"))
BOTH = (RATIONALE, RATING)


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        # Bare, decorated, or in another script's digits.
        ("4", 4), (" 4.\n", 4), ("**4**", 4), ("[[4]]", 4), (r"$\boxed{4}$", 4), ("４", 4),
        ("<score>4</score>", 4), ('{"rating": 4}', 4), ("4.0", 4), ("(4)", 4), ("- 4", 4),
        # An explicit score or rating.
        ("It reads well. Final score: 5.", 5), ("**Final Score:** **4**", 4), ("Rating: 4", 4),
        ("I would give it a score of 4.", 4), ("... earning a score of 3 for coherence.", 3),
        ("resulting in a score of two.", 2), ("The score for fluency for this text is 2.", 2),
        ("Therefore, the coherence score is 2.", 2), ("I would rate this response a 3.", 3),
        ("It would be rated as a 1 (no) because it is off topic.", 1), ("so it gets a 4.", 4),
        ("Score (1-5): 4", 4), ("Score = 4", 4), ("On a scale of 1 to 5, I give it a 4.", 4),
        # A final score is final, and prose beside it is not.
        ("A score of 5 would need more. Final score: 4", 4),
        ("Coverage score: 3\nOrder score: 5\nOverall score: 4", 4),
        ("It lists 12 of 15 goals. Score: 2", 2), ("They won by a score of 3-1. Score: 2", 2),
        # Out of the top of the scale.
        ("4 out of 5", 4), ("4/5", 4), ("scoring a one out of five.", 1), ("Score: 4/5.", 4),
        ("It leaves out the date. 2/5", 2), ("which makes it 4 out of 5, all told.", 4),
        # A number standing alone.
        ("It is clear at the sentence level. 5", 5), ("Good (3)", 3), ("Yes, 2.", 2),
        ("- Groundedness: 1", 1), ("Engagingness:\n2", 2), ("1. Coherence: 2", 2),
        ("Response: 1", 1), ("The text names U2 and 220-0.\n\nCoherence: 3", 3),
        ("Coherence: 3. It says why, as in 1995.", 3),
        # First, before an explanation.
        ("2. It touches on U2 and the 60s only.", 2), ("3 (good)", 3),
        ("4 stars. It misses 2 of the points.", 4), ("3 - clear, though long", 3), ("2: dull", 2),
        # Number words.
        ("four", 4), ("Four.", 4), ("Three stars. It covers one event.", 3),
        # Our own scale, however it is named.
        ("On a scale of 5, it is rated 4.", 4), ("Rating: 4 on a 5-point scale", 4),
        ("Score (out of 5): 4", 4), ("Score: 4 (out of 5)", 4), ("Rating: 4 (5 is best)", 4),
        ("It gives the wrong score (2-1 for 6-1). Rating: 4", 4),
        ("For example, it omits the date. Rating: 3", 3), ("As requested, my rating: 5", 5),
        # A label with its reasons behind.
        ("Label: 5 - the summary is good", 5), ("Label: 5 (very good)", 5), ("4 - good", 4),
        ("Rating: 4\n\nIt does not mention the 3 people.", 4), ("Label: 5 - 3 facts are right.", 5),
        # What a document says, asks or holds is no rating, and neither is a part of the whole.
        ("It does not name the 3 goals, resulting in a score of 2.", 2),
        ("He said `U2 has 4 members.\" Score: 3.", 3), ("Clarity: 3\nDepth: 5\nOverall: 4", 4),
        # JSON: the key says what a number is.
        ('```json\n{"rationale": "It has 3 errors.", "rating": 4}\n```', 4), ('{"score": "4/5"}',
        4),
        ('Here it is:\n{"reason": "A score of 5 needs more.", "score": 4}', 4),
        ('{"confidence": 5, "rating": 4}', 4), ("{'rating': 4}", 4), ('{"coherence": 4}', 4),
        # Other languages' words for a rating.
        ("4<|endoftext|>", 4), ("Rating: 4</s>\n", 4),
        ("TOTAL SCORE: 4", 4), ("Total rating: 4/5", 4), ("Feedback: Good. [RESULT] 4", 4),
        ("The score I would give is 4.", 4), ("On a scale of 1 to 5: 4", 4),
        ("Rating on a scale of 1 to 5: 4", 4),
        ("评分：4", 4), ("Puntuación: 4", 4), ("Note : 4/5", 4), ("Bewertung: ４", 4),
        # The score of a part that is named, and a ratio that is none.
        ("Score for coherence: 4", 4), ("Rating of clarity: 4", 4), ("Ratio 3:1.\nScore: 4", 4),
        # A label that says "rating" speaks after other numbers.
        ("Confidence: 5\nRating: 4", 4), ("Fact: 1\nResponse: 1", 1), ("评分：4分", 4),
    ],
)  # fmt: skip
def test_a_reply_with_one_rating_gives_it(reply: str, rating: int) -> None:
    assert parse_rating(reply, SCALE) == rating


@pytest.mark.parametrize(
    "reply",
    [
        "", "  ", "N/A", "none", "A", "-2", "aaaa2bbb", "2bbb", "0", "6", "10", "4.5", "-4",
        # Two candidates, in whatever form.
        "3 or 4", "3-4", "between 3 and 4", "4 5", "4\n5", "4,5", "1. 3", "four or five",
        "Score: 3-4", "Score: 3 or 4", "Score: 3, maybe 4", "Score: 3. Rating: 4",
        "Final score: 3. Rating: 4", "3/5 or 4/5", "Score: 4\n\n3", "3. It deserves a score of 4.",
        # Off the scale, or on another one.
        "Score: 7", "Rating: -2", "Score: 4/10", "8/10", "8 out of 10", "Final score: 4.5",
        # Numbers that are no rating.
        "The summary has 2 sentences.", "It covers 2 of 3 goals", "£4", "4%", "#4", "2nd", "4th",
        "It won 1-0 in May.", "1. Read the text.\n2. Rate it.", "since 2016", "Under-21",
        "3 out of 5 sentences are wrong", "2 points are missing", "| Rating | 4 |", "⭐⭐⭐⭐",
        # Two candidates that disagree, wherever they stand.
        "a 4 out of 5 for it. It has a perfect fluency score of 5", "5? No. 3",
        "Rating: 5 / Actually, 2", "Rating: 5\nActually, 2", "Rating: 5. Make it a 2.",
        "4. I was tempted to give it a 5.", "Score: 4\nScore: 5", '{"rating": 4, "score": 5}',
        '{"rating": 4}\n{"rating": 5}', '{"rating": 4} No, 3.', '{"rating": 4, "rating": 5}',
        # A negation, a supposition, a hedge.
        "I would not give it a 5. 2", "It is not a 5.", "I don't think it deserves a 5",
        "I would not, in all fairness, give it a 5", "It is far from a 5", "anything but a 5",
        "If it were shorter, I would give it a 5", "A score of 5 is not deserved.",
        "A score of 5 would be too high.", "Others would give it a 5.", "at least 4",
        "Rating: at least 4", "Rating: <4", "Rating: ~4", "Rating: 4+", "Rating: 4ish",
        "Rating: 4?", "Rating: 4½", "4²", "Rating: 4 or so", "4, at most",
        "A perfect summary gets a score of 5.",
        # Taken back or refused.
        "Rating: 5. Wait, that's too high.", "Rating: 5. Scratch that.", "I cannot rate it. 1",
        "I can't rate this on a scale of 1 to 5.", "Rating: N/A (1 fact)",
        # Another scale, which the claim's own sentence names.
        "On a scale of 1-10, I rate it 4.", "Score (0-10): 4", "Rating (1-10): 4",
        "Score (out of 10): 4", "Score: 4 (out of 10)", "Score: 4 (max 10)", "Score: 4 (0-10)",
        "Rating: 4 on a 10-point scale", "Rating: 4 on a scale of 10", "4 (out of 100)",
        "Rating: 4 (scale: 1-10)", "Rating: 4 (10 is best)", "Rating: 4 on a 1-7 scale",
        # Two parts, neither of them the whole.
        "I rate it 4 in coherence and 2 in fluency.", "I'd give it 4 for style and 2 for content",
        # What another text says.
        "The summary says: Rating: 5", "The text reads: Rating: 5", "The user wrote: Rating: 5",
        "The article states: score: 5", "For example, Rating: 5", "Example: Rating: 5",
        # Arithmetic.
        "Score = 3 + 1 = 4", "3 + 1 = 4", "Score: 5 - 1 = 4", "Score: 5 minus 1", "Rating: 2 x 2",
        "It names the people, the place and the day, and it reads well enough.\nScore: 4 because "
        "it has 2 plus 2 good points in all the parts that I have read so far.",
        # A quotation, the scale, the rubric.
        'The document says "Rating: 5".', "The text asks me to give it a 5.", "> Rating: 5",
        "A score of 5 means perfect.", "1 = bad, 5 = good", "Rate it from 1 to 5.",
        # Another quantity's name.
        "Criterion 1: 5 / Criterion 2: 3", "Criterion 1: 5\nCriterion 2: 3", "Errors: 2",
        "relevance: 4; fluency: 5", "Number of errors: 2",
        "Number of errors:\n2", "Confidence: 5", "Confidence score: 5", "## Confidence\n5",
        "Rating: 4\nConfidence: 5", "<errors>2</errors>", '{"errors": 2}', "Step 1: 5",
        "The number of errors in the text =\n3",
        "The score is a 2. Here is why: it is dull.\n1. One point is for style.",
        "Previous score: 5", "Maximum score: 5", "The average is 4", "Missing facts: 2",
        '{"relevance": 4, "fluency": 5}', '{"rating": true}', '{"rating": [4]}', '{"rating": null}',
    ],
)  # fmt: skip
def test_any_other_reply_is_refused_and_kept(reply: str) -> None:
    with pytest.raises(NoScoreError) as refusal:
        parse_rating(reply, SCALE)
    assert repr(" ".join(reply.split())) in str(refusal.value)


def test_a_long_reply_is_kept_by_its_two_ends() -> None:
    with pytest.raises(NoScoreError, match=r"'Begin x.* \.\.\. .*x end'") as refusal:
        parse_rating("Begin " + "x " * 4000 + "end", SCALE)
    assert len(str(refusal.value)) < 250


def test_letters_count_only_where_a_mapping_says_so() -> None:
    letters = {"A": 1, "B": 2, "C": 3}
    assert parse_score("B", range(1, 4), letters=letters) == 2
    assert parse_score("C: All of it is relevant.", range(1, 4), letters=letters) == 3
    with pytest.raises(NoScoreError):
        parse_rating("B", range(1, 4))


def test_the_overall_rating_speaks_for_the_dimension_that_is_asked_for() -> None:
    reply = "Warmth: 4\nOverall: 3"
    assert parse_rating(reply, SCALE, names=["warmth"]) == 3
    assert parse_rating("Warmth: 4", SCALE, names=["warmth"]) == 4


def test_a_score_between_ratings_is_a_score_and_no_rating() -> None:
    assert parse_score("Final score: 3.5", SCALE) == 3.5
    with pytest.raises(NoScoreError, match=r"5\.5 is not from 1 to 5"):
        parse_score("5.5", SCALE)


@pytest.mark.parametrize(
    ("reply", "rating"), [("10", 10), ("10/10", 10), ("Score: 7", 7), ("0", 0)]
)
def test_other_scales_have_other_ends(reply: str, rating: int) -> None:
    assert parse_rating(reply, range(11)) == rating


def test_a_negative_rating_needs_a_scale_that_has_it() -> None:
    assert parse_rating("Rating: -1", (-1, 0, 1)) == -1


@given(rating=st.sampled_from(list(SCALE)), text=st.text(max_size=200))
def test_no_text_makes_the_parser_do_anything_but_answer_or_refuse(rating: int, text: str) -> None:
    for reply in (text, f"{text}\n\nFinal score: {rating}"):
        with contextlib.suppress(NoScoreError):
            assert parse_rating(reply, SCALE) in SCALE


PIECES = [
    "\n", " ", "\t\n", "4", "4 ", "4\n", "- ", "1. x\n", "one ", "(4", "[", "{", "}", '{"a":', "a:",
    "a", "A ", "A: ", "A, ", "score ", "score of ", "Rating: 4\n", "I would give it a ",
    "4 out of ",
    "(1 to ", "from 1 ", '"', "'", "*", "_", "\\", "#", "<a>", "</", "<think>", "</think>", "[[ ##",
    "[[ ## rating ## ]]", "[[ ## completed ## ]]", "Output (a) is better. ", "not ", "\u200b",
    "\u3000",
]  # fmt: skip


@pytest.mark.parametrize("size", [19_000, 400_000])
@pytest.mark.parametrize("piece", PIECES)
def test_a_hostile_reply_is_read_or_refused_in_seconds_whatever_its_length(
    piece: str, size: int
) -> None:
    # Anything quadratic takes minutes at 400 kB.
    reply = piece * (size // len(piece)) + "?"
    start = time.process_time()
    for outputs in (BOTH, (COMPARISON, PREFERRED)):
        with contextlib.suppress(NoScoreError):
            parse_fields(reply, outputs)
    assert time.process_time() - start < 2


def test_blank_lines_are_no_hindrance_and_a_long_text_is_no_answer() -> None:
    assert parse_rating("\n" * 120_000 + "Score: 4" + " " * 120_000, SCALE) == 4
    with pytest.raises(NoScoreError, match=r"30,008 characters, of which at most 20,000 are read"):
        parse_rating("word " * 6_000 + "\nScore: 4", SCALE)
    with pytest.raises(NoScoreError, match="more than 300 possible answers"):
        parse_rating("4 " * 301, SCALE)


@pytest.mark.parametrize(
    ("reply", "rationale", "rating"),
    [
        ("[[ ## rationale ## ]]\nGood.\n\n[[ ## rating ## ]]\n4\n\n[[ ## completed ## ]]",
         "Good.", 4),
        ("**[[ ## rationale ## ]]** Good.\n**[[ ## rating ## ]]:** 4", "Good.", 4),
        ("[[## Rationale ##]] Good. [[##rating##]] 4", "Good.", 4),
        ("[[ ## rating ## ]]\n3\n[[ ## rationale ## ]]\nFair.", "Fair.", 3),
        ("It is good. Final score: 4", "It is good. Final score: 4", 4),
        ("A good text.\n[[ ## rating ## ]]\n4", "A good text.", 4),
        ("4", "", 4),
        ("<think>5 or 1?</think>\n\n4", "", 4), ("5 or 1? 5.</think>\n4", "", 4),
        ("<think>5</think> 3 <THINK>1</THINK>4", "", 4), ("[THINK]5[/THINK]4", "", 4),
        ("<|channel|>analysis<|message|>5?<|end|><|start|>assistant<|channel|>final<|message|>4",
         "", 4),
        ("[[ ## rationale ## ]]\nOk.\n[[ ## rating ## ]]\n4\n[[ ## confidence ## ]]\n5", "Ok.", 4),
        # It runs on with a row of its own making.
        ("[[ ## rationale ## ]]\nOk.\n[[ ## rating ## ]]\n4\n[[ ## completed ## ]]\n"
         "[[ ## summary ## ]]\nx\n[[ ## rationale ## ]]\nBad.\n[[ ## rating ## ]]\n1", "Ok.", 4),
    ],
)  # fmt: skip
def test_fields_are_found_by_their_headers_however_decorated(
    reply: str, rationale: str, rating: int
) -> None:
    assert parse_fields(reply, BOTH) == {"rationale": rationale, "rating": rating}


@pytest.mark.parametrize(
    "reply",
    [
        "[[ ## rationale ## ]]\nIt says [[ ## rating ## ]] 5.\n\n[[ ## rating ## ]]\n2",
        "[[ ## rationale ## ]]\nIt says:\n[[ ## rating ## ]]\n5\nand more.\n[[ ## rating ## ]] 2",
        "[[ ## rationale ## ]]\nIt ends '[[ ## completed ## ]]'.\n[[ ## rating ## ]]\n2",
    ],
)
def test_a_header_quoted_in_a_rationale_loses_to_the_real_one(reply: str) -> None:
    assert parse_fields(reply, BOTH)["rating"] == 2


@pytest.mark.parametrize(
    "reply",
    [
        "[[ ## rationale ## ]]\nFine.\n\n[[ ## rating ## ]]\n\n[[ ## completed ## ]]",
        "[[ ## rationale ## ]]\nScore: 4\n\n[[ ## rating ## ]]\nnone",
        "[[ ## rationale ## ]]\nIt says [[ ## rating ## ]] 5.\n\n2",
    ],
)
def test_what_stands_under_the_header_is_not_made_up_for_from_elsewhere(reply: str) -> None:
    with pytest.raises(NoScoreError, match="rating: "):
        parse_fields(reply, BOTH)


@pytest.mark.parametrize(
    "reply",
    [
        "<think>It is a score of 5. But wait", "<think>Score: 5\n\n5", "4 <think>or 5",
        "</think><think>4", "<reasoning>Rating: 4", "[THINK]Rating: 4", "◁think▷Rating: 4",
        "<|channel|>analysis<|message|>Rating: 4", "<think type='deep'>Rating: 4",
        "<thinking >Rating: 4", "<|think|>Rating: 4", "</think><think id=2 >4",
    ],
)  # fmt: skip
def test_a_thought_without_its_end_holds_no_rating(reply: str) -> None:
    with pytest.raises(NoScoreError, match="a thought without its end"):
        parse_fields(reply, BOTH)


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ("[[ ## rationale ## ]]\nOk.\n[[ ## rating ## ]]\n4\n[[ ## completed ## ]]\n\n[[ ## d", 4),
        ("[[ ## rating ## ]]\n4\n\n[[ ## rationale ## ]]\nIt is fi", 4),
        ("[[ ## rationale ## ]]\nOk.\n[[ ## rating ## ]]\n4", None),
        ("[[ ## rationale ## ]]\nIt gets a score of 5. But wait", None),
        ("4", None), ("It is a score of 5. But wait", None),
    ],
)  # fmt: skip
def test_a_reply_cut_short_holds_a_rating_only_where_a_header_closes_it(
    reply: str, rating: int | None
) -> None:
    if rating is not None:
        assert parse_fields(reply, BOTH, truncated=True)["rating"] == rating
        return
    with pytest.raises(NoScoreError, match="rating: the reply is cut short"):
        parse_fields(reply, BOTH, truncated=True)


def test_a_free_text_cut_short_is_none() -> None:
    instruction = Field(name="instruction", description="", role="output")
    with pytest.raises(NoScoreError, match="cut short"):
        parse_fields("Judge it by", [instruction], truncated=True)


def test_a_single_free_text_needs_no_header_but_may_not_be_empty() -> None:
    instruction = Field(name="instruction", description="", role="output")
    assert parse_fields("Judge it.", [instruction]) == {"instruction": "Judge it."}
    headed = "Sure.\n[[ ## instruction ## ]]\nJudge it.\n[[ ## completed ## ]]"
    assert parse_fields(headed, [instruction]) == {"instruction": "Judge it."}
    with pytest.raises(NoScoreError, match="nothing written"):
        parse_fields(" ", [instruction])


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("A", "A"), ("b", "B"), ("**B**", "B"), ("A.", "A"), ("(B)", "B"), ("[[A]]", "A"),
        ("Preferred: B", "B"), ("Final answer: A", "A"), ("My choice is B", "B"),
        ("A: The first says more.", "A"), ("B\n\nIt says more.", "B"),
        ("Output (a)", "A"), ("Summary B", "B"), ("I prefer summary B.", "B"),
        ("Output (a) is good. Output (b) is better at 1. Therefore, Output (a) is better.", "A"),
        ("Summary A is better than summary B.", "A"), ("The better response is Response B.", "B"),
        ("Response B is clearly more helpful.", "B"), ("A better summary is B", "B"),
        ("Output (a) is better. It is short.", "A"), ("A - worse, B - better", "B"),
        ("Output (b) is better because it does not add anything.", "B"), ("A is the best.", "A"),
        ("Although neither is perfect, Output (b) is better.", "B"), ("B wins.", "B"),
        ("A is better for me.", "A"), ("A is better on balance.", "A"),
        ("A is better on most counts.", "A"),
        ("I prefer A over B.", "A"), ("I'd pick B.", "B"), ("Verdict: [[B]]\nA is dull.", "B"),
        ('Comparison: B omits it, A does not. Preferred: "A"', "A"),
        ('{"winner": "A", "reason": "b"}', "A"),
        ("A\n\nA says more than B.", "A"), ('{"preferred": "B"}', "B"), ("<answer>B</answer>", "B"),
        ('{"reason": "Summary A is better at style.", "winner": "B"}', "B"),
        ("A. The summary says more.", "A"), ("B. Summary claims nothing false.", "B"),
        ("A: the letter is kinder", "A"), ("B, the second one.", "B"),
    ],
)  # fmt: skip
def test_a_reply_that_chooses_gives_its_choice(reply: str, choice: str) -> None:
    assert parse_choice(reply, ["A", "B"]) == choice


@pytest.mark.parametrize(
    "reply",
    [
        "", "C", "AB", "A or B", "A and B", "Both", "tie", "A good summary is short.",
        "neither Output (a) nor Output (b) can be considered better", "Preferred: neither",
        "Preferred: A. Preferred: B", "Output (a) is not better", "a summary is preferred",
        # Two choices that disagree.
        "the best answer is A. a solar eclipse hides the sun. Therefore, Output (b) is better",
        "A is better, but I choose B", "Answer: A. Actually, B", "Answer: A\nWait, B", "A\nB",
        "Answer: A/B", "Answer: A or B", "Answer: A, B", "A and B are better", "A: 3, B: 4",
        "A: good.\nB: bad.", "A is worse. Answer: A", '{"preferred": "A"} No, B.',
        "Not A but B is it", "A is better on style; B is better on content",
        # Against, negated, supposed, asked, quoted, another's.
        "A: worse", "A is worse", "I don't prefer A", "I do not prefer A.", "I'd never pick A",
        "not A", "Answer: not A", "The answer is not A", "A is no better than B", "A isn't better",
        "neither Output (a) nor Output (b) is better.", "Least preferred: A", "Rejected: A",
        "I doubt that A is better", "I can't say that A is better", "Some say A is better",
        "If it were shorter, A would be better", "A is better? No.", "A is best avoided",
        "It is hard to say that A is better", "The user says: A is better", "Would you choose A?",
        'The text says "Answer: A"', "The user prefers A", "A is better at style", "Anything but A",
        "Answer: A. Scratch that.", "A and B are equally good, A", "I cannot choose. A",
        '{"preferred": "both"}', '{"preferred": "A", "winner": "B"}',
        # The letter itself, and a person's initial.
        "A, the first letter.", "B. Smith wrote it.", "A. Jones said so.",
    ],
)  # fmt: skip
def test_a_reply_that_does_not_choose_is_refused(reply: str) -> None:
    with pytest.raises(NoScoreError):
        parse_choice(reply, ["A", "B"])


def test_a_tie_is_a_choice_only_where_it_is_offered() -> None:
    assert parse_choice("C: Both are equal.", ["A", "B", "C"]) == "C"
    with pytest.raises(NoScoreError):
        parse_choice("C: Both are equal.", ["A", "B"])


def test_a_comparison_and_its_choice_are_read_together() -> None:
    reply = "[[ ## comparison ## ]]\nB says more.\n[[ ## preferred ## ]]\nB\n[[ ## completed ## ]]"
    read = parse_fields(reply, (COMPARISON, PREFERRED))
    assert read == {"comparison": "B says more.", "preferred": "B"}


@pytest.mark.parametrize("reply", ["Coherence: 4\nFluency: 2", "fluency 2, coherence 4/5"])
def test_of_several_qualities_the_dimensions_own_rating_counts(reply: str) -> None:
    with pytest.raises(NoScoreError):
        parse_fields(reply, [RATING])
    assert parse_fields(reply, [RATING], names=["coherence"]) == {"rating": 4}


def test_a_name_that_no_reply_uses_takes_nothing_away() -> None:
    assert parse_fields("Relevance: 4", [RATING], names=["my_metric_2"]) == {"rating": 4}


OF_A_DIMENSION = [
    ("Coherence deserves a 4; fluency a 2.", "fluency", 2),
    ("Coherence: 4\nFluency: 2", "coherence", 4),
    ("Fluency: 2", "coherence", None),
    ('{"coherence": 4, "fluency": 2}', "coherence", 4),
    ("coherence_score: 3", "coherence", 3),
    ("The coherence of the summary is rated 3.", "coherence", 3),
    ("Coherence: 4\nOverall: 3", "relevance", 3),
    ("Warmth: 3 (friendly enough)", "warmth", 3),
    ("Helpfulness score: 4, harmlessness score: 2", "harmlessness", 2),
    ("**Warmth**: 3", "warmth", 3),
]


@pytest.mark.parametrize(("reply", "dimension", "meant"), OF_A_DIMENSION)
def test_a_known_dimension_is_read_from_its_own_rating(
    reply: str, dimension: str, meant: int | None
) -> None:
    if meant is None:
        with pytest.raises(NoScoreError):
            parse_rating(reply, range(1, 6), names=[dimension])
    else:
        assert parse_rating(reply, range(1, 6), names=[dimension]) == meant
