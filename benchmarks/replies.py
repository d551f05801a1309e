# ruff: noqa: E501 - the forms are data
"""Replies by the hundred thousand, each made with what a human would read: none is read otherwise.

    python benchmarks/replies.py                    # the fuzzer: 100,000 replies
    python benchmarks/replies.py --n 5000 --seed 3
    python benchmarks/replies.py recorded           # ../shared/data: the share failed, by judge

A grammar of replies: plain forms (of which 95 % or more must be read), the same with remarks, and
unclear ones (negations, arithmetic, quotations, other quantities, two answers, ...), of which none
may give a score. What a reply means is known from how it was made.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judges.judgement import NoScoreError
from judges.parsing.parse import parse_choice, parse_fields, parse_rating, parse_score
from judges.parsing.recorded import read_pair_replies, read_replies
from judges.prompt import Field

SCALE = (1, 2, 3, 4, 5)
WORDS = ("zero", "one", "two", "three", "four", "five")
RATIONALE = Field(name="rationale", description="", role="output")
RATING = Field(name="rating", description="", role="output", choices=SCALE)
COMPARISON = Field(name="comparison", description="", role="output")
PREFERRED = Field(name="preferred", description="", role="output", choices=("A", "B"))


@dataclass(frozen=True, slots=True)
class Made:
    """A reply, the rating or letter that a human reads in it (None: none), and its kind."""

    text: str
    meant: int | str | None
    kind: str
    plain: bool = False
    fields: tuple[Field, ...] = ()
    truncated: bool = False


REASONS = (
    "The summary covers the main points.",
    "It is well written, but it does not mention the date.",
    "The text has 3 sentences, of which 2 repeat each other.",
    "It names 12 of the 15 goals and nobody's age.",
    "They won 3-1 in 2014, as the article says.",
    "The response is not helpful to the user.",
    "Some details are missing, e.g. who was hurt.",
    "The summary is clear and accurate, although it is short.",
    "It lacks coherence since no sentence follows from the last.",
    "On 4 May 2015 the bridge was closed; the summary leaves that out.",
    "One of the two speakers is left out.",
    "The first sentence is good; the second one is less so.",
)
SOUND = tuple(reason for reason in REASONS if not any(sign.isdigit() for sign in reason))
QUALITIES = ("relevance", "coherence", "fluency", "consistency", "Engagingness", "Groundedness",
             "helpfulness", "clarity", "accuracy", "Overall quality")  # fmt: skip
COUNTS = ("Number of errors", "Errors", "Confidence", "Typos", "Missing facts", "Word count",
          "Number of sentences", "Repetitions", "Omissions", "Certainty", "Confidence score",
          "Hallucinations", "Sentences", "Step", "Paragraph", "Question", "Page", "Length",
          "Grammatical errors", "Previous score", "Maximum score", "Reference score",
          "The number of mistakes")  # fmt: skip


def reason(rng: random.Random) -> str:
    return rng.choice(REASONS)


def plain_rating(rng: random.Random) -> Made:
    """A form that models really use when asked for a rating."""
    n, quality, why = rng.choice(SCALE), rng.choice(QUALITIES), reason(rng)
    sound = rng.choice(SOUND)
    noun = rng.choice(("Rating", "Score", "Final score", "Final rating", "Overall score", "rating",
                       "SCORE", "My rating", "Overall rating", "Answer", "Label"))  # fmt: skip
    it = rng.choice(("it", "this summary", "the summary", "this", "the response", "this response"))
    would = rng.choice(("I would", "I'd", "I will", "I", "Overall, I would", "Therefore, I"))
    forms = (
        f"{n}", f"{n}.", f"{n}/5", f" {n}\n", f"**{n}**", f"[[{n}]]", f"({n})", f"`{n}`", f"{n} / 5",
        f"{n} out of 5", f"{n} stars", f"{n}/5.", f"**{n}/5**", f"{n}.0", WORDS[n], f"{WORDS[n].title()}.",
        f"{noun}: {n}", f"{noun}: {n}/5", f"{noun}: {n}.", f"**{noun}:** {n}", f"**{noun}: {n}**",
        f"{noun}: **{n}**", f"{noun}:{n}", f"{noun} = {n}", f"{noun}: {n} out of 5", f"{noun}: [[{n}]]",
        f"{noun} (1-5): {n}", f"{noun}:\n{n}", f"# {noun}\n{n}", f"{noun}: {WORDS[n]}", f"{noun} - {n}",
        f"{noun}: {n}\n\n{why}", f"{noun}: {n}. {why}", f"{noun}: {n} - {sound}", f"{noun}: {n} ({sound})",
        f"{noun}: {n}\nExplanation: {why}", f"{noun}: {n}\nRationale: {why}", f"{noun}: {n}/5\n\n{why}",
        f"{why} {noun}: {n}", f"{why} {noun}: {n}.", f"{why}\n\n{noun}: {n}", f"{why}\n{n}", f"{why} {n}",
        f"{why}\n\n**{noun}: {n}/5**", f"Reason: {why}\n{noun}: {n}", f"Analysis: {why}\n\n{noun}: {n}",
        f"{quality}: {n}", f"- {quality}: {n}", f"{quality.title()}: {n}/5", f"{quality.title()} score: {n}",
        f"The {quality.lower()} score is {n}.", f"The score for {quality.lower()} is {n}.",
        f"{n} - {sound}", f"{n}: {sound}", f"{n}. {why}", f"{n}, because {sound.lower()}", f"{n}\n\n{why}",
        f"{n} ({sound.lower().rstrip('.')})", f"{n} – {sound}", f"{n}\n{why}",
        f"{would} give {it} a {n}.", f"{would} give {it} a {n}", f"{would} rate {it} a {n}.",
        f"{would} rate {it} {n}.", f"{would} rate {it} {n}/5.", f"{would} give {it} {n} out of 5.",
        f"{would} give {it} a score of {n}.", f"{would} rate {it} as {n}.", f"{would} say {n}.",
        f"{would} give {it} a rating of {n} out of 5.", f"{would} assign {it} a score of {n}/5.",
        f"{would} give {it} a score of {n} for {quality.lower()}.", f"{would} give {it} a {n}/5.",
        f"{why} Therefore, I rate it {n}.", f"{why} {would} give {it} a {n}.", f"{why} So {n}.",
        f"{why} Therefore, the score is {n}.", f"{why} Thus, the rating is {n}.", f"{why} It's a {n}.",
        f"{why} This deserves a {n}.", f"{why} It gets a {n}.", f"It is a solid {n}. {why}",
        f"{sound[:-1]}, resulting in a score of {n}.", f"{sound[:-1]}, earning a score of {n}.",
        f"{sound[:-1]}, so it gets a {n}.", f"{sound[:-1]}, so I would give it a {n}.",
        f"My score is {n}.", f"My rating: {n}", f"The rating is {n} because {sound.lower()}",
        f"Based on the criteria, {would.lower().replace('i', 'I', 1) if would[0] == 'I' else would} rate {it} a {n}.",
        json.dumps({"rating": n}), json.dumps({"score": n}), json.dumps({"rationale": why, "rating": n}),
        json.dumps({"rating": n, "reason": why}, indent=1), f"```json\n{json.dumps({'rating': n})}\n```",
        f"Here is my rating:\n```json\n{json.dumps({'reason': why, 'score': n})}\n```",
        json.dumps({"rating": str(n)}), json.dumps({"score": f"{n}/5"}), f"{{'rating': {n}}}",
        f"<rating>{n}</rating>", f"<score>{n}</score>", f"<reason>{why}</reason>\n<score>{n}</score>",
        f"$\\boxed{{{n}}}$", f"Rating: $\\boxed{{{n}}}$", chr(0xFF10 + n), f"评分：{n}", f"Note : {n}/5",
        f"On a scale of 1 to 5, {would} give {it} a {n}.", f"{n} out of 5. {why}", f"{n}/5 - {sound}",
    )  # fmt: skip
    text = rng.choice(forms)
    if rng.random() < 0.1:
        text = rng.choice((f"\n\n{text}\n", f"Sure! Here is my rating.\n\n{text}", f"{text}\n\n"))
    return Made(text, n, "plain rating", plain=True)


def headed_rating(rng: random.Random) -> Made:
    """Our own form, and what models make of it."""
    n, why = rng.choice(SCALE), reason(rng)
    m = rng.choice([one for one in SCALE if one != n])
    header = rng.choice(("[[ ## {} ## ]]", "[[## {} ##]]", "**[[ ## {} ## ]]**", "[[ # {} # ]]"))
    said = rng.choice((f"{n}", f"{n}.", f"**{n}**", f"{n}/5", f"Rating: {n}", f"{n}\n", f" {n} "))
    rationale, rating, end = (header.format(name) for name in ("rationale", "rating", "completed"))
    kind = rng.randrange(9)
    if kind == 0:
        # It runs on with a row of its own making.
        more = f"{header.format('summary')}\nx\n{rationale}\n{why}\n{rating}\n{m}\n{end}"
        text = f"{rationale}\n{why}\n\n{rating}\n{said}\n\n{end}\n\n{more}"
        return Made(text, n, "runs on", fields=(RATIONALE, RATING))
    if kind == 1:
        quoted = f"It says {rating} {m}. {why}"
        text = f"{rationale}\n{quoted}\n\n{rating}\n{said}\n\n{end}"
        return Made(text, n, "quoted header", fields=(RATIONALE, RATING))
    if kind == 2:
        start, stop = rng.choice(
            (("<think>", "</think>"), ("", "</think>"), ("[THINK]", "[/THINK]"))
        )
        text = f"{start}Rating: {m}? {why}{stop}\n{rationale}\n{why}\n{rating}\n{said}\n{end}"
        return Made(text, n, "thought", fields=(RATIONALE, RATING))
    if kind == 3:
        text = f"<think>{why} It is a score of {n}. But wait"
        return Made(
            text, None, "unclosed thought", fields=(RATIONALE, RATING), truncated=rng.random() < 0.5
        )
    if kind == 4:
        text = rng.choice(
            (f"{rationale}\n{why}\n{rating}\n{n}", f"{rationale}\n{why} A score of {n}", f"{n}")
        )
        return Made(text, None, "cut short", fields=(RATIONALE, RATING), truncated=True)
    text = f"{rationale}\n{why}\n\n{rating}\n{said}" + rng.choice((f"\n\n{end}", "", f"\n{end}\n"))
    if kind == 5:
        text = f"{rating}\n{said}\n{rationale}\n{why}\n{end}"
    return Made(text, n, "headed rating", plain=True, fields=(RATIONALE, RATING))


def remarked_rating(rng: random.Random) -> Made:
    """A rating among other remarks: a human reads it, and a strict reader may refuse it."""
    n = rng.choice(SCALE)
    m = rng.choice([one for one in SCALE if one != n])
    why, count = reason(rng), rng.choice(COUNTS)
    part, other = rng.sample(QUALITIES[:9], 2)
    forms = (
        f"A score of {m} would need more detail. Final score: {n}",
        f"{part.title()}: {m}\n{other.title()}: {rng.choice(SCALE)}\nOverall: {n}",
        f"{part} score: {m}; {other} score: {m}. Final rating: {n}",
        f"{count}: {m}\nRating: {n}", f"Rating: {n}\n{count}: {m}", f"Rating: {n} ({count.lower()}: {m})",
        f"Rating: {n}. It is not a {m} because {why.lower()}", f"{n}. I thought of giving it a {m}.",
        f"Rating: {m}. Actually, {n}.", f"Rating: {m}\nWait, I misread it. Rating: {n}",
        f"The rubric says that {m} means dull. Score: {n}", f"{m}? No, {n}.", f"Not a {m}. {n}",
        f"{n} ({n - 1} + 1 for style)", f"Score = {n - 1} + 1 = {n}", f"Rating: {n} (80 %)",
        f"I was going to give it a {m}, but I give it a {n}.", f'The text says "Rating: {m}". Rating: {n}',
        f"| Criterion | Score |\n|---|---|\n| {part} | {m} |\n\nFinal score: {n}", f"{n} or so",
        f"I would not give it a {m}, so I give it a {n}.", f"It is between a {m} and a {n}; I say {n}.",
        f"| Rating | {n} |", f"Rating: {n} (out of 5, {why.lower()})", f"Definitely a {n}!", f"Rating {n}",
        f"about a {n}", f"I'd go with {n}.", f"Ich gebe {n} Punkte.", f"Je donne {n}/5.", f"Bewertung: {n}",
        f"Puntuación: {n}/5", f"[Rating: {n}]", f"Rating => {n}", f"=> {n}", f"Score: {n} 👍", f"{n} 👍",
        f"It's not not good: {n}", f"The annotator said {m}, I say {n}.", f"Scores: {n}", f"{n} (not {m})",
        f"Rated {n}", f"rating is {n}", f"Score of {n}.", f"I choose {n}.", f"Rating: {n}, confidence: high",
        json.dumps({"rating": n, "confidence": m}), json.dumps({"reason": f"Score: {m}", "score": n}),
        json.dumps({"evaluation": {"rating": n}}), json.dumps([{"rating": n}]),
    )  # fmt: skip
    return Made(rng.choice(forms), n, "remarked rating")


def unclear_rating(rng: random.Random) -> Made:
    """Nothing in it is the reply's own, single, certain rating."""
    n = rng.choice(SCALE)
    m = rng.choice([one for one in SCALE if one != n])
    low, high = sorted((n, m))
    why, count = reason(rng), rng.choice(COUNTS)
    part, other = rng.sample(QUALITIES[:9], 2)
    asked = rng.choice(("I would", "I'd", "I"))
    forms = (
        # Two candidates.
        f"{n} or {m}", f"{n}, {m}", f"{n}-{m}", f"{low} to {high}", f"Rating: {n} or {m}", f"Rating: {high}/{low}",
        f"between {low} and {high}", f"Rating: {low}-{high}", f"{n}\n{m}", f"Rating: {n}\nRating: {m}",
        f"Score: {n}. {why} Score: {m}", f"{n}. {why} I would give it a {m}.", f"{n} {m}", f"{n}, maybe {m}",
        f"Rating: {n}. {why} Final score: {m}", f"{n}/5 or {m}/5", f"{WORDS[n]} or {WORDS[m]}",
        f"I give it a {n}. {why} I give it a {m}.", f"a {n} out of 5. It has a perfect {part} score of {m}.",
        f"{part}: {n}; {other}: {m}", f"{part}: {n}\n{other}: {m}", f"Criterion 1: {n} / Criterion 2: {m}",
        f"Criterion 1: {n}\nCriterion 2: {m}", f"- {part}: {n}/5\n- {other}: {m}/5",
        f"| {part} | {n} |\n| {other} | {m} |", f"It gets a {n} for {part} and a {m} for {other}.",
        f"The {part} score is {n} and the {other} score is {m}.", f"Summary 1: {n}\nSummary 2: {m}",
        # Itself corrected, with nothing certain left.
        f"Rating: {n} / Actually, {m}?", f"Rating: {n}. Wait, that's too high.", f"Score: {n}. Scratch that.",
        f"Rating: {n}... hmm, or {m}", f"{n}. On second thought, I am not sure.", f"{n}? {m}?", f"{n}?",
        f"Rating: {n}?", f"Should it be a {n}?", f"Is it a {n}? {why}",
        # Negated, supposed, hedged away.
        f"{asked} not give it a {n}." if asked != "I" else f"I do not give it a {n}.", f"It is not a {n}.",
        f"I would not give it a {n}. {m}", f"I don't think it deserves a {n}.", f"not {n}", f"It isn't a {n}",
        f"It does not deserve a score of {n}.", f"I would not, in all fairness, give it a {n}.",
        f"A score of {n} is not warranted.", f"I can't give it a {n}.", f"It never deserves a {n}.",
        f"It is far from a {n}.", f"No {n} for this one.", f"less than {n}", f"more than {n}", f"at least {n}",
        f"at most {n}", f"Rating: at least {n}", f"under {n}", f"Rating: <{n}", f"Rating: >{n}", f"{n}+",
        f"If it were shorter, I would give it a {n}.", f"It could be a {n}.", f"It might deserve a {n}.",
        f"Were it clearer, I would give it a {n}.", f"A score of {n} would be too high.", f"almost a {n}",
        f"I would have given it a {n} if it named the date.", f"It would take more to earn a {n}.",
        f"I hesitate to give it a {n}.", f"I refuse to give it a {n}.", f"It falls short of a {n}.",
        f"I doubt that it deserves a {n}.", f"Nobody would give it a {n}.", f"{n} is too high.",
        # Arithmetic.
        f"{n} + {m}", f"{n} - 1", f"5 - {m}", f"Score = {n} * {m}", f"{n} x {m}", f"Rating: {n} + {m}",
        f"2 points for style, {n} for content", f"({n} + {m}) / 2", f"Rating: ({n}+{m})/2", f"Rating: {n} - 1",
        f"The average of {n} and {m}", f"{n} points minus 1", f"I take off {n} points.", f"minus {n}", f"-{n}",
        # Quoted, another's, the scale's, the rubric's.
        f'The document says "Rating: {n}".', f"The text asks me to give it a {n}.", f"> Rating: {n}",
        f"The summary contains 'Score: {n}'.", f'It tells the judge to "give a score of {n}".',
        f"Other annotators would give it a {n}.", f"Some would say {n}.", f"People would rate it {n}.",
        f"The author gives it a {n}.", f"A score of {n} means that it is dull.", f"{n} = dull, {m} = fair",
        f"Score {n} is for perfect texts.", f"A {n} would need more detail.", "Rate it from 1 to 5.",
        f"The rubric reserves a score of {n} for perfect texts.", "On a scale of 1 to 5.", "1-5",
        f"1 is the worst and {n} the best.", "Rating (1-5):", "Rating: (1-5)", f"You wanted a {n}.",
        # Another quantity.
        f"{count}: {n}", f"{count}: {n}.", f"{count} = {n}", f"- {count}: {n}", f"**{count}:** {n}",
        f"{count}:\n{n}", f"The {count.lower()} is {n}.", f"{n} errors", f"{n} of the facts are wrong.",
        f"It has {n} sentences.", f"It has {n} errors: {why}", f"{n} out of 5 sentences are wrong.",
        f"{n} minutes", f"Errors found: {n}", f"I found {n}.", f"{n} typos, otherwise good.", f"{n}%",
        f"Rating: {n}0%", f"{n}0 %", f"£{n}", f"#{n}", f"{n}th", f"Section {n}", f"Version {n}", f"U{n}",
        f"{n} May 2020", f"2020-0{n}-0{m}", f"{n}:00", f"May {n}.", f"It was written at {n}:{m}0.",
        json.dumps({"confidence": n}), json.dumps({"errors": n}), json.dumps({"relevance": n, "fluency": m}),
        json.dumps({"rating": n, "score": m}), json.dumps({"rating": None}), json.dumps({"rating": [n, m]}),
        f'{{"rating": {n}, "rating": {m}}}', json.dumps({"id": n}), f"<errors>{n}</errors>",
        # On another scale, or off it.
        f"{n}/10", f"Rating: {n}/10", f"{n} out of 10", f"Rating: {n * 20}/100", f"{n}.5", "7", "0", "6/5",
        f"Rating: {n}/7", f"{n} out of 100", f"Rating: {n}.5", f"1{n}", f"Rating: {n}{m}", f"{n}½", f"{n}²",
        # Refusals and nothing.
        "I can't rate this.", "I cannot rate it on a scale of 1 to 5.", "N/A", "", why, "none",
        f"I can't rate this, but it has {n} facts.", f"As an AI, I cannot give it a score of {n}.",
        f"1. {why}\n2. {rng.choice(SOUND)}", f"I'm unable to give a rating of {n}.", "good", "A",
        f"Step 1: read. Step 2: rate. Step {n}: reply.", f"The best are {n} and {m}.", f"zwischen {low} und {high}",
    )  # fmt: skip
    return Made(rng.choice(forms), None, "unclear rating")


LIKES = (
    "It is short and true.",
    "It says who did what, and why.",
    "It follows the instruction.",
    "It does not add anything.",
    "The other one has 3 errors.",
)


def plain_choice(rng: random.Random) -> Made:
    c = rng.choice("AB")
    d = "AB".strip(c)
    noun = rng.choice(("Summary", "Response", "Output", "Answer", "Option", "Assistant"))
    label = rng.choice(("Answer", "Preferred", "Final answer", "Verdict", "Final verdict", "Winner",
                        "My choice", "Preference", "Choice", "Better " + noun.lower()))  # fmt: skip
    like = rng.choice(LIKES)
    low = c.lower()
    forms = (
        c, f"{c}.", f"({c})", f"**{c}**", f"[[{c}]]", f"({low})", low, f"{noun} {c}", f"{noun} ({low})",
        f"Output ({low})", f"{noun} {c}.", f"{label}: {c}", f"**{label}:** {c}", f"{label}: **{c}**",
        f"{label}: [[{c}]]", f"{label}: {noun} {c}", f"{label}: ({low})", f"{label}: {c}. {like}",
        f"{label}: {c}\n\n{like}", f"{like}\n\n{label}: {c}", f"{c}: {like}", f"{c} - {like}", f"{c}\n\n{like}",
        f"{c}. {like}", f"{c}, because {like.lower()}", f"{noun} {c} is better.", f"{noun} {c} is better because {like.lower()}",
        f"Output ({low}) is better.", f"Output ({low}) is better. {like}", f"Therefore, Output ({low}) is better.",
        f"Output ({low}) is better because {like.lower()}", f"{like} Therefore, Output ({low}) is better.",
        f"{noun} {c} is better than {noun} {d}.", f"{noun} {c} is the better {noun.lower()}.", f"{c} is better.",
        f"I prefer {noun} {c}.", f"I prefer {c}.", f"I choose {c}.", f"I would choose {noun.lower()} {c}.",
        f"I prefer {noun.lower()} {c} over {noun.lower()} {d}.", f"The better {noun.lower()} is {c}.",
        f"The answer is {c}.", f"The better one is {noun} {c}.", f"My choice is {c}.", f"{noun} {c} wins.",
        f"Overall, {noun} {c} is better.", f"Both are good, but {noun} {c} is better.", f"My preference is {c}.",
        f"Although {noun} {d} is longer, {noun} {c} is better.", f"I think {noun} {c} is better.",
        f"{noun} {d} is good. However, {noun} {c} is more helpful.", f"{noun} {c} is clearly better.",
        json.dumps({"preferred": c}), json.dumps({"winner": c, "reason": like}), f"<answer>{c}</answer>",
        json.dumps({"reason": f"{noun} {d} is longer.", "answer": c}), f"```json\n{json.dumps({'choice': c})}\n```",
        f"{noun} {d} is dull. Therefore, {noun} {c} is better.", f"So the better {noun.lower()} is {noun} {c}.",
    )  # fmt: skip
    return Made(rng.choice(forms), c, "plain choice", plain=True)


def headed_choice(rng: random.Random) -> Made:
    c = rng.choice("AB")
    like = rng.choice(LIKES)
    said = rng.choice((c, f"{c}.", f"**{c}**", f"Summary {c}", f"({c})"))
    text = (
        f"[[ ## comparison ## ]]\n{like}\n\n[[ ## preferred ## ]]\n{said}\n\n[[ ## completed ## ]]"
    )
    if rng.random() < 0.2:
        return Made(text[:60], None, "cut short", fields=(COMPARISON, PREFERRED), truncated=True)
    return Made(text, c, "headed choice", plain=True, fields=(COMPARISON, PREFERRED))


def remarked_choice(rng: random.Random) -> Made:
    c = rng.choice("AB")
    d = "AB".strip(c)
    like = rng.choice(LIKES)
    forms = (
        f"{d}: worse", f"{d} - worse, {c} - better", f"{d}: good, {c}: better", f"{d} is worse than {c}.",
        f"{d} is better at style, {c} is better overall.", f"Not {d} but {c}", f"{c} > {d}", f"[[{c}>{d}]]",
        f"{d}? No, {c}.", f"Answer: {d}. Actually, {c}.", f"I don't prefer {d}; I prefer {c}.", f"{d} loses.",
        f"{d} is not better than {c}.", f"I was going to choose {d}, but {c} is better.", f"{d} is worse.",
        f"Some say {d} is better; I prefer {c}.", f"Worse: {d}. Better: {c}.", f"{c} is slightly better at everything.",
        f"{c} is much better than {d} at this. {like}", f"Definitely {c}!", f"Hands down {c}", f"=> {c}",
        f"It is {c}.", f"{c}, hands down", f"Rejected: {d}\nChosen: {c}", f"The loser is {d}.", f"{c} it is.",
        f"Output ({d.lower()}) fails. Output ({c.lower()}) does not.", f"{c} (by a little)", f"B{'' if c == 'B' else ' is not it, A'}",
    )  # fmt: skip
    return Made(rng.choice(forms), c, "remarked choice")


def unclear_choice(rng: random.Random) -> Made:
    c = rng.choice("AB")
    d = "AB".strip(c)
    n, m = rng.sample(SCALE, 2)
    like = rng.choice(LIKES)
    forms = (
        "A or B", "A and B", "Both", "Neither", "tie", "A/B", "A, B", f"{c} and {d} are equally good.", "AB", "C",
        f"Answer: {c} or {d}", f"Answer: {c}/{d}", f"Answer: {c}, {d}", f"{c}\n{d}", f"{c}? {d}?", f"{c}?",
        f"Answer: {c}. Answer: {d}", f"{c} is better. {like} {d} is better.", f"I prefer {c}. Answer: {d}",
        f"the best answer is {c}. a solar eclipse hides the sun. {like} Therefore, Output ({d.lower()}) is better",
        f"{c} is better, but I choose {d}", f"{c}: {n}\n{d}: {m}", f"{c}: {n}, {d}: {m}", f"Summary {c}: {like}\nSummary {d}: {like}",
        f"{c}: short.\n{d}: long.", "neither Output (a) nor Output (b) is better.", "neither A nor B",
        f"I don't prefer {c}, and I don't prefer {d}.", f"I cannot choose between {c} and {d}.", f"I can't say that {c} is better.",
        f"{c} is better? No idea.", f"Is {c} better?", f"Would you choose {c}?", f"If it were shorter, {c} would be better.",
        f'The text says "Answer: {c}".', f"The summary tells me to choose {c}.", f"Some say {c} is better.",
        f"The user prefers {c}.", f"{c} is better at style.", f"{c} is better in some ways.", "A good summary is short.",
        f"I doubt that {c} is better.", f"It is hard to say whether {c} is better.", f"{c} might be better.",
        f"{c} would be better if it were true.", f"{c} is no better than {d}, and {d} no better than {c}.",
        f"Answer: {c}. Scratch that.", f"{c}... wait, no.", f"I cannot choose. {c}?", "", like, "a summary is preferred",
        f"I have no preference: {c} and {d} are alike.", f"Everyone prefers {c}.", f"Either {c} or {d}", f"{c} & {d}",
        f"{c}={d}", f"The best answer is neither {c} nor {d}.", f"{c} and {d} both follow the instruction.",
        json.dumps({"preferred": "both"}), json.dumps({"preferred": c, "winner": d}), json.dumps({"preferred": None}),
        f"{c} is as good as {d}.", f"I might choose {c}.", f"I could pick {c}, or {d}.", f"{c} or maybe {d}", "I can't decide.",
        f"Some would choose {c}, others {d}.", f"Let {c} be the better one.", f"Suppose {c} is better.", "Answer:", "[[A]] [[B]]",
    )  # fmt: skip
    return Made(rng.choice(forms), None, "unclear choice")


MAKERS: tuple[tuple[Callable[[random.Random], Made], float], ...] = (
    (plain_rating, 0.2), (headed_rating, 0.1), (remarked_rating, 0.1), (unclear_rating, 0.25),
    (plain_choice, 0.12), (headed_choice, 0.03), (remarked_choice, 0.05), (unclear_choice, 0.15),
)  # fmt: skip


def make(n: int, seed: int) -> Iterator[Made]:
    rng = random.Random(seed)
    makers, weights = zip(*MAKERS, strict=True)
    for maker in rng.choices(makers, weights, k=n):
        made = maker(rng)
        if made.meant is None and not made.fields and rng.random() < 0.4:
            made = replace(made, text=wrapped(made.text, rng))
        yield made


def wrapped(text: str, rng: random.Random) -> str:
    """An unclear reply among sentences and in markup that make it no clearer."""
    why = rng.choice(SOUND)
    return rng.choice(
        (f"{why} {text}", f"{why}\n\n{text}", f"{text} {why}", f"{text}\n\n{why}", f"**{text}**",
         f"Sure!\n\n{text}", f"{text}\n\nLet me know if you need more.", text.upper(), text.lower(),
         f"- {text}", f"{text}!", f"<b>{text}</b>", f"Evaluation: {text}", f"{why} So, {text}")
    )  # fmt: skip


def read(made: Made) -> int | str | None:
    """What the project reads in a reply; None where it fails."""
    try:
        if made.fields:
            values = parse_fields(made.text, made.fields, truncated=made.truncated)
            return values[made.fields[-1].name]
        if made.kind.endswith("choice"):
            return parse_choice(made.text, ["A", "B"])
        return parse_rating(made.text, SCALE)
    except NoScoreError:
        return None


def fuzz(n: int, seed: int) -> tuple[Counter[tuple[str, str]], float, list[tuple[Made, int | str]]]:
    """Counts of (kind, outcome), the share of plain forms read, and every reply read wrongly."""
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[tuple[Made, int | str]] = []
    plain: Counter[bool] = Counter()
    for made in make(n, seed):
        got = read(made)
        outcome = "failed" if got is None else "read" if got == made.meant else "WRONG"
        counts[made.kind, outcome] += 1
        if made.plain:
            plain[got is not None] += 1
        if got is not None and got != made.meant:
            wrong.append((made, got))
    return counts, plain[True] / max(1, plain.total()), wrong


def recorded(data: Path) -> Iterator[tuple[str, str, int, int]]:
    """Judge, prompt, replies and how many of them fail, for every recording in ../shared/data."""
    topical = {"groundedness": (0, 1)}
    counts: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for folder in ("summeval_judges", "topical_chat_judges"):
        for path in sorted((data / folder).glob("replies_*.jsonl")):
            for record in read_replies(path):
                judge = path.stem.removeprefix("replies_").removesuffix(f"_{record.prompt}")
                key = (f"{folder.removesuffix('_judges')}, {judge}", str(record.prompt))
                letters = dict(zip("ABCDE", SCALE, strict=True)) if "mcq" in key[1] else None
                dimension = str(record.dimension)
                scale = SCALE if folder.startswith("summ") else topical.get(dimension, (1, 2, 3))
                for reply in record.replies:
                    counts[key] += 1
                    failed[key] += not _readable(
                        lambda reply=reply, scale=scale, letters=letters, dimension=dimension: (
                            parse_score(reply, scale, letters=letters, names=(dimension,))
                        )
                    )
    for path, choices in (
        (data / "summeval_judges" / "h2h_gpt-3.5-turbo-0301.jsonl", "ABC"),
        (data / "llmbar" / "replies_GPT-4.jsonl", "AB"),
    ):
        for pair in read_pair_replies(path):
            key = (f"{path.parent.name.removesuffix('_judges')}, {path.stem}", str(pair.prompt))
            for reply in (pair.order_ab, pair.order_ba):
                counts[key] += 1
                failed[key] += not _readable(
                    lambda reply=reply, choices=choices: parse_choice(reply, list(choices))
                )
    for (judge, prompt), n in counts.items():
        yield judge, prompt, n, failed[judge, prompt]


def _readable(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except NoScoreError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("fuzz", "recorded"), default="fuzz")
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    data = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=data)
    args = parser.parse_args(arguments)
    if args.what == "recorded":
        print("| judge | prompt | replies | failed |\n|---|---|---:|---:|")
        for judge, prompt, n, failed in recorded(args.data):
            print(f"| {judge} | {prompt} | {n:,} | {failed:,} ({failed / n:.2%}) |")
        return 0
    start = time.perf_counter()
    counts, plain, wrong = fuzz(args.n, args.seed)
    print("| kind | replies | read as meant | failed | WRONG |\n|---|---:|---:|---:|---:|")
    for kind in sorted({kind for kind, _ in counts}):
        read, failed, bad = (counts[kind, outcome] for outcome in ("read", "failed", "WRONG"))
        print(f"| {kind} | {read + failed + bad:,} | {read:,} | {failed:,} | {bad:,} |")
    seconds = time.perf_counter() - start
    print(f"\nplain forms read: {plain:.2%}; wrong: {len(wrong)} of {args.n:,}; {seconds:.0f} s")
    for made, got in wrong[:20]:
        print(f"  {made.kind}: meant {made.meant}, read {got}: {made.text!r}", file=sys.stderr)
    return 1 if wrong or plain < 0.95 else 0


if __name__ == "__main__":
    sys.exit(main())
