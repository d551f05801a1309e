"""The commands `list`, `show` and `export`, which print judges and their prompts."""

import argparse
import json
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

from dspy_judges.errors import UsageError
from judges.catalog import SUBJECT_BY_NAME
from judges.cli.flags import DEFAULT_EXPORT_LM, with_reasoning_flag
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.loading import load
from judges.panel import AnyJudge, Panel
from judges.prompt import SLOT_PATTERN, FieldValue
from judges.protocol import Message, is_decision_model
from judges.questions import AnswerShare, AnswerWeights
from judges.scoring import ONE_REPLY_PLAN, sampling_for
from judges.terminal import print_error, print_output, wrap_lines

# A demonstration is two messages: texts, and the answer to them.
MAX_SHOWN_DEMOS = 3


def show_list(flags: argparse.Namespace) -> int:
    """Print the catalogue of judges: one line per judge, or the whole catalogue as JSON."""
    subjects = SUBJECT_BY_NAME.values()
    if flags.json:
        print(json.dumps([_subject_json(subject) for subject in subjects], indent=1))
        return 0
    terminal_width = shutil.get_terminal_size((80, 24)).columns
    rows = [("name", "texts", "scale", "source")]
    for subject in subjects:
        output_texts = [f"2 x {subject.candidate}"] if isinstance(subject, Comparison) else []
        text_names = ", ".join([*subject.inputs, *output_texts])
        rows.append((subject.name, text_names, _answer_range(subject.answers), subject.source))
    column_widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    for *cells, source in rows:
        line = "".join(map(str.ljust, cells, column_widths))
        source_width = max(terminal_width - len(line), 12)
        print(line + textwrap.shorten(source, source_width, placeholder=" ..."))
    return 0


def show_judge(flags: argparse.Namespace) -> int:
    """Print a judge and the messages that it sends; for a panel, the messages of each member."""
    judge = with_reasoning_flag(load(flags.judge), flags.judge, flags)
    members = judge.members if isinstance(judge, Panel) else ()
    messages_by_name = {member.name: member.judge.template() for member in members}
    if isinstance(judge, Judge):
        messages_by_name[judge.name] = judge.template()
    answer_shares = _answer_shares(judge)
    if flags.json:
        judge_json = {**_subject_json(judge.subject), "provenance": judge.provenance}
        judge_json["messages"] = messages_by_name
        if answer_shares:
            judge_json["questions"] = [asdict(share) for share in answer_shares[:-1]]
        print(json.dumps(judge_json, indent=1))
        return 0
    lines = [*wrap_lines(*_description_lines(judge)), *_answer_lines(answer_shares)]
    for member in members:
        lines.append(f"  {member.weight:.3f}  {member.name} (asks {member.judge.lm})")
    for name, messages in messages_by_name.items():
        lines += _message_lines(name, messages)
    print_output(*lines)
    return 0


def _message_lines(judge_name: str, messages: Sequence[Message]) -> list[str]:
    n_demos = len(messages) // 2 - 1
    blocks = [(f"--- {judge_name}: {one['role']} ---", one["content"]) for one in messages]
    if (n_hidden := n_demos - MAX_SHOWN_DEMOS) > 0:
        title = f"--- {n_hidden:,} more of {n_demos:,} demonstrations ---"
        blocks[-1 - 2 * n_hidden : -1] = [(title, "(--json prints all of them)")]
    return [line for title, text in blocks for line in ("", title, text)]


def _answer_lines(answer_shares: Sequence[AnswerShare]) -> list[str]:
    """Return lines on each answer: its share in the score, and the agreement lost without it."""
    if not answer_shares:
        return []
    heading = "answers, with the share of each in the score"
    if any(answer.loss for answer in answer_shares):
        heading += ", and the change in agreement with people if the answer is left out"
    lines = wrap_lines(f"{heading}:")
    for answer in answer_shares:
        loss_text = f" ({-answer.loss:+.3f})" if answer.loss else ""
        answer_text = f"{answer.name} ({_answer_range(answer.answers)}){loss_text}: {answer.text}"
        lines += wrap_lines(answer_text, title=f"  {answer.share:4.0%}  ")
    return lines


def _description_lines(judge: AnyJudge) -> list[str]:
    subject, provenance = judge.subject, judge.provenance_record
    lines = [
        f"{judge.name}: {subject.definition}",
        f"{judge.kind}; reads {', '.join(judge.texts)}; scale {_answer_range(subject.answers)}",
    ]
    if subject.source:
        lines.append(f"source: {subject.source}")
    if subject.questions and not judge.provenance:
        question_names = ", ".join(question.name for question in subject.questions)
        lines.append(f"questions that tuning may ask: {question_names}")
    if isinstance(judge, Judge) and (plan := judge.plan) is not None:
        samples_phrase = f" of {plan.samples}" if plan.kind == "mean" else ""
        lines.append(f"frozen for {judge.lm}, plan {plan.kind}{samples_phrase}")
    if labels := provenance.tuning_labels:
        shipped_judge = provenance.shipped_judge or "tuned, not shipped:"
        judge_phrase = "untuned" if provenance.is_untuned else shipped_judge
        remark = ", whose labels no person gave" if labels.is_constructed else ""
        optimizer = provenance.optimizer
        lines.append(f"{judge_phrase} judge of optimizer {optimizer}, on {labels.name}{remark}")
    return lines


def _answer_shares(judge: AnyJudge) -> list[AnswerShare]:
    """Return how much each answer counts in the score; [] if the judge asks no questions."""
    if not isinstance(judge, Judge) or not judge.prompt.question_fields:
        return []
    rating_weights = AnswerWeights(intercept=0.0, slopes={judge.prompt.answer_field.name: 1.0})
    answer_losses = judge.provenance_record.answer_losses
    loss_by_answer = {answer.name: answer.loss for answer in answer_losses if answer.loss}
    return (judge.weights or rating_weights).describe(judge.prompt.choices, loss_by_answer)


def _subject_json(subject: Subject) -> dict[str, object]:
    return {
        "name": subject.name,
        "kind": subject.kind,
        "texts": list(subject.texts),
        "scale": [*subject.answers],
        "definition": subject.definition,
        "source": subject.source,
    }


def _answer_range(answers: Sequence[FieldValue]) -> str:
    first_answer, *_, last_answer = answers
    separator = "-" if isinstance(first_answer, int) else "/"
    return f"{first_answer}{separator}{last_answer}"


def export(flags: argparse.Namespace) -> int:
    """Print a judge as a chat-completions request with {{slots}} for the texts."""
    from judges.client.openai import RequestFormat

    judge = load(flags.judge)
    if isinstance(judge, Panel):
        raise UsageError(f"{flags.judge} is a panel: export the judges of the panel one by one")
    judge = judge.with_model(flags.lm or (None if judge.plan else DEFAULT_EXPORT_LM))
    if is_decision_model(judge.lm):
        raise UsageError(f"{judge.lm} does not read chat requests: name a chat model by --lm")
    messages, plan = judge.template(), judge.plan or ONE_REPLY_PLAN
    *earlier_texts, last_text = [message["content"] for message in messages]
    if any("{{" in text for text in (*earlier_texts, SLOT_PATTERN.sub("", last_text))):
        raise UsageError(f"{judge.name}: the prompt has double braces, which would mark a text")
    request_format = RequestFormat(judge.lm.removeprefix("openai/"))
    request = request_format.make_body(messages, sampling_for(plan, judge.prompt))
    print(json.dumps({"n": 1, **request}, indent=1))
    warning = f"other programs insert texts unchanged, and you have to apply the plan {plan.kind}"
    if judge.subject.is_pairwise:
        warning += "; the judge asks in both orders, and counts choices that differ as a tie"
    if judge.weights:
        warning += "; the score weighs the answers to questions by the weights in the judge's file"
    print_error(f"warning: {warning}")
    return 0
