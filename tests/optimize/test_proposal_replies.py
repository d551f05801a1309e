"""What a proposer writes: the instruction is found in every form, and a remark never taken."""

import json

import pytest

from judges.judgement import NoScoreError
from optimize.search.proposal_replies import read_anchors, read_instruction

TEXT = "Judge how well the reply serves its reader. Mind invented facts most."
LINES = "Rate the summary.\n1. Look for repetition.\n2. Look for what is missing.\nUse all ratings."
TWO = "You rate a reply.\n\nCount every claim that the source does not support against it."
ANALYSIS = "People seem to value brevity: the judge overrates length."
REPLIES = {
    # (1) our own form, whole and damaged
    "headers": (f"[[ ## analysis ## ]]\n{ANALYSIS}\n\n[[ ## instruction ## ]]\n{TEXT}", TEXT),
    "headers, ended": (
        f"[[ ## analysis ## ]]\nx\n\n[[ ## instruction ## ]]\n{TEXT}\n\n[[ ## completed ## ]]\n",
        TEXT,
    ),
    "headers, instruction first": (
        f"[[ ## instruction ## ]]\n{TWO}\n\n[[ ## analysis ## ]]\n{ANALYSIS}",
        TWO,
    ),
    "headers, anchors behind": (
        f"[[ ## instruction ## ]]\n{TEXT}\n[[ ## anchors ## ]]\n1 = bad\n5 = good",
        TEXT,
    ),
    "another name": (f"[[ ## new_instruction ## ]]\n{TEXT}\n\n[[ ## completed ## ]]", TEXT),
    "bold headers": (f"**[[ ## analysis ## ]]**\nx\n**[[ ## instruction ## ]]**\n{TEXT}", TEXT),
    "in the header's line": (f"[[ ## instruction ## ]] {TEXT}", TEXT),
    "fence under a header": (
        f"[[ ## instruction ## ]]\n```\n{LINES}\n```\n[[ ## completed ## ]]",
        LINES,
    ),
    "preface under a header": (
        f"[[ ## instruction ## ]]\nHere is the better instruction:\n\n{TEXT}",
        TEXT,
    ),
    "quotes under a header": (f'[[ ## instruction ## ]]\n"{TEXT}"', TEXT),
    "repeated header": (
        "[[ ## instruction ## ]]\n(draft)\n[[ ## analysis ## ]]\nx\n"
        f"[[ ## instruction ## ]]\n{TEXT}",
        TEXT,
    ),
    "header quoted in the analysis": (
        "[[ ## analysis ## ]]\nUnder [[ ## instruction ## ]] I write it.\n"
        f"[[ ## instruction ## ]]\n{TEXT}",
        TEXT,
    ),
    "thoughts": (f"<think>Rate the reply? No.</think>\n[[ ## instruction ## ]]\n{TEXT}", TEXT),
    # (2) other headings
    "markdown": (f"## Analysis\n{ANALYSIS}\n\n## Instruction\n{TWO}", TWO),
    "markdown with a remark behind": (
        f"### Analysis\nx\n\n### New instruction\n\n{TEXT}\n\n### Rationale\nIt is short.",
        TEXT,
    ),
    "bold label": (f"**Analysis:** {ANALYSIS}\n\n**Instruction:** {TEXT}", TEXT),
    "bold label, colon outside": (f"**Improved instruction**:\n{LINES}", LINES),
    "plain label": (f"Analysis: {ANALYSIS}\nInstruction: {TEXT}", TEXT),
    "numbered labels": (f"1. Analysis: {ANALYSIS}\n2. Instruction: {TEXT}", TEXT),
    "label and quotes": (f'New instruction: "{TEXT}"', TEXT),
    "label, quotes and a remark": (f"Revised instruction:\n“{TEXT}”\n\nThis keeps it short.", TEXT),
    "tags": (f"<analysis>{ANALYSIS}</analysis>\n<instruction>\n{TEXT}\n</instruction>", TEXT),
    "tags with another name": (f"<new_instruction>{TEXT}</new_instruction>", TEXT),
    # (3) JSON
    "JSON": (json.dumps({"analysis": ANALYSIS, "instruction": TWO}), TWO),
    "fenced JSON": ("```json\n" + json.dumps({"instruction": TEXT}, indent=2) + "\n```", TEXT),
    "JSON in prose": (f"Here it is: {json.dumps({'Improved instruction': TEXT})} Done.", TEXT),
    "JSON within JSON": (json.dumps({"output": {"instruction": TEXT}}), TEXT),
    "JSON with raw line breaks": ('{"instruction": "' + LINES + '"}', LINES),
    # (4) fences, quotes, prefaces
    "fence": (f"```\n{TEXT}\n```", TEXT),
    "fence with a language": (f"```text\n{TEXT}\n```", TEXT),
    "fence in one line": (f"```{TEXT}```", TEXT),
    "fence never closed": (f"Sure!\n```\n{TEXT}", TEXT),
    "preface and fence": (f"Here is a better instruction:\n\n```\n{TEXT}\n```", TEXT),
    "analysis, fence, remark": (f"{ANALYSIS}\n\n```\n{TWO}\n```\n\nIt stays general.", TWO),
    "preface": (f"Sure! Here's the improved instruction:\n\n{TWO}", TWO),
    "preface and quotes": (f'Here is a better version:\n"{TEXT}"', TEXT),
    "quoted": (f'"{TEXT}"', TEXT),
    "curly quotes": (f"“{TEXT}”", TEXT),
    "blockquote": (f"Here is the new instruction:\n\n> {TEXT}", TEXT),
    "bold": (f"**{TEXT}**", TEXT),
    # (5) by itself
    "bare": (TEXT, TEXT),
    "bare paragraphs": (TWO, TWO),
    "bare lines": (LINES, LINES),
    "remark, then bare": (f"{ANALYSIS}\n\n{TWO}", TWO),
    "bare, then remarks": (f"{TWO}\n\nThis keeps it general.\n\nLet me know what you think!", TWO),
    "a list of its own": (
        "You rate replies.\n\nInstructions:\n- Mind invented facts.\n- Use the whole scale.",
        "You rate replies.\n\nInstructions:\n- Mind invented facts.\n- Use the whole scale.",
    ),
    "quotes within": (
        'Judge whether "facts" are facts and "opinions" opinions',
        'Judge whether "facts" are facts and "opinions" opinions',
    ),
    "as the current one begins": ("Bewerte die Antwort streng.", "Bewerte die Antwort streng."),
}


@pytest.mark.parametrize("name", REPLIES)
def test_the_instruction_is_found_in_every_form(name: str) -> None:
    reply, expected = REPLIES[name]
    assert read_instruction(reply, "Bewerte die Zusammenfassung.") == expected


REFUSED = {
    "a remark": ANALYSIS,
    "a remark of the first person": "I would tell the judge to mind facts more.",
    "an apology": "I'm sorry, but I can't help with that.",
    "the analysis alone": f"[[ ## analysis ## ]]\n{ANALYSIS}\n\n[[ ## completed ## ]]",
    "an empty header": "[[ ## analysis ## ]]\nx\n[[ ## instruction ## ]]\n\n[[ ## completed ## ]]",
    "a remark under the header": f"[[ ## instruction ## ]]\n{ANALYSIS}",
    "nothing new": "[[ ## instruction ## ]]\nNo change is needed.",
    "two fences of instructions": f"```\n{TEXT}\n```\nor\n```\n{LINES}\n```",
    "JSON without one": json.dumps({"analysis": ANALYSIS}),
    "JSON of another type": json.dumps({"instruction": 3}),
    "an unfinished thought": "<think>Rate the reply",
    "nothing": "  ",
    "only the old one": f"Current instruction: {TEXT}",
    "a loop": f"[[ ## instruction ## ]]\n{TEXT} " + "Use the whole scale always. " * 9,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_instruction_is_refused_with_its_fault(name: str) -> None:
    with pytest.raises(NoScoreError) as error:
        read_instruction(REFUSED[name], "Rate the reply.")
    assert str(error.value)


SCALE = (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("1 = wrong\n5 = right", ((1, "wrong"), (5, "right"))),
        ("- 5: right.\n- 3: so so\n- 1: wrong;", ((1, "wrong"), (3, "so so"), (5, "right"))),
        ("unchanged", None),
        ("", None),
        ("1 = wrong", None),
        ("1 = wrong\n5 = right\n6 = more", None),
        ("1 = wrong\n1 = bad\n5 = right", None),
        ("People mind facts.\n1 = wrong\n5 = right", None),
        ("1 = " + "very " * 50 + "bad\n5 = right", None),
    ],
)
def test_anchors_are_taken_only_as_they_were_asked_for(
    section: str, expected: tuple[tuple[int, str], ...] | None
) -> None:
    reply = f"[[ ## instruction ## ]]\n{TEXT}\n\n[[ ## anchors ## ]]\n{section}"
    assert read_anchors(reply, SCALE) == expected


def test_anchors_may_come_as_json() -> None:
    reply = json.dumps({"instruction": TEXT, "anchors": {"1": "wrong", "5": "right"}})
    assert read_anchors(reply, SCALE) == ((1, "wrong"), (5, "right"))
