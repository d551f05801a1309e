"""A self-contained HTML page of a run, a verification, a comparison or a panel.

One template draws every page. It escapes all texts, has no script, and asks for nothing elsewhere.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from judges.labels.types import LabelledOutput
from judges.prompt import Prompt, encodable
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import RowWriter
from judges.terminal import visible
from optimize.figures.as_text import (
    cost_text,
    counted,
    figure_text,
    number_text,
    share_text,
    signature,
)
from optimize.measuring.comparison import ComparedJudge, JudgeComparison
from optimize.measuring.injection import Probes
from optimize.measuring.misses import FALSE_ALARM, FALSE_PASS, MISS_COLUMNS, miss_rows, misses
from optimize.measuring.scorecard import PeopleFigures
from optimize.measuring.scored import Scored
from optimize.measuring.tuning_result import TuningResult
from optimize.measuring.verification import Verification
from optimize.report import charts
from optimize.report.charts import CountChart, RowChart
from optimize.report.comparison import comparison_answer, comparison_tables
from optimize.report.next_steps import comparison_step, run_steps, verification_step
from optimize.report.sentences import Titled, figure_meaning, labels_text, scale_warning
from optimize.report.tuning import run_answer, run_table, run_title, search_end
from optimize.report.verification import MISSES, gate_lines, verification_answer
from optimize.statistics.correlations import midranks
from optimize.statistics.intervals import Figure

# Disagreements, failures, demonstrations and judges that are shown.
MAX_CASES, MAX_FAILURES, MAX_DEMOS, MAX_DRAWN = 20, 20, 5, 12
# Characters of a text, and of a failure's reason.
MAX_TEXT, MAX_REASON = 1500, 300
# On a page on pass and fail there is a section of each kind.
MISS_KINDS = {
    FALSE_PASS: ("False passes", "people fail and the judge passes"),
    FALSE_ALARM: ("False alarms", "people pass and the judge fails"),
}
# Numbers that are written alike differ by less.
SAME = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One output or demonstration, folded until it is opened: lines, then texts by name."""

    title: str
    lines: Sequence[str] = ()
    texts: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page; what it lacks is left out. Backticks in steps become code."""

    title: str
    sentences: Sequence[str] = ()
    titled: Sequence[Titled] = ()
    steps: Sequence[str] = ()
    charts: Sequence[RowChart | CountChart | None] = ()
    tables: Sequence[Table] = ()
    cases: Sequence[Case] = ()
    texts: Sequence[tuple[str, str | Markup]] = ()


def write(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write the page whole or not at all."""
    write_atomically(path, encodable(html(title, sections)).encode(), overwrite=True)


def html(title: str, sections: Sequence[Section]) -> str:
    """The page; what would turn letters round or hide them is written out."""
    return visible(_environment().get_template("page.html").render(title=title, sections=sections))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("optimize.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": backticks_as_code, "numeric": _is_numeric}
    return environment


def backticks_as_code(sentence: str) -> Markup:
    """What stands between backticks is code; a lone backtick stays."""
    pieces = sentence.split("`")
    if len(pieces) % 2 == 0:
        return escape(sentence)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece)
        for place, piece in enumerate(pieces)
    )


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(not cell or cell == "undefined" or cell[0] in "+-0123456789$" for cell in cells)


def write_run(
    path: Path,
    result: TuningResult,
    judged: Mapping[str, Mapping[str, Scored]],
    prompts: Mapping[str, Prompt],
    probes: Probes,
) -> None:
    """Write a run's page; `judged` holds both judges' judgements by split."""
    words = ["tuned", "untuned"]
    if prompts["seed"] == prompts["tuned"]:
        words = ["tuned" if result.shipped == "tuned" else "untuned"]
    where = {"test": "", "test_unseen_systems": ", unseen systems"}
    shares = {
        f"{word}{where[name]}": split.cards[word].order
        for name, split in result.splits.items()
        for word in words
    }
    head, rows = run_table(result)
    if not result.is_binary:
        gains = [figure_text(split.gain, signed=True) for split in result.splits.values()]
        rows = [(*row[:3], gain, row[3]) for row, gain in zip(rows, gains, strict=True)]
        head = (*head[:3], "gain", head[3])
    meaning = figure_meaning(result.card, result.level)
    caption = f"Both judges on labels that tuning did not use. {meaning}"
    scored, labels = judged[result.shipped]["test"], labels_text(result.data, result.unit)
    answer = [*run_answer(result), *search_end(result)]
    answer += scale_warning(result.card) if result.card else []
    tables = [
        Table(head=head, rows=rows, caption=caption),
        *_people(result.card.people if result.card else None),
        _attempts(probes),
        _failures(scored),
    ]
    # The page comes last: where it stands, a run has ended.
    _write_misses(path.with_name(MISSES), scored)
    write(
        path,
        run_title(result),
        [
            Section(title="Answer", titled=[*answer, ("Labels", labels)]),
            Section(title="What to do next", steps=run_steps(result, talked_up(probes, scored))),
            *_evidence(scored, shares),
            Section(title="Figures", tables=tables),
            _judge(result, prompts),
        ],
    )


def write_verification(path: Path, result: Verification, scored: Scored) -> None:
    """Write a verification's page; `scored` are the judgements that its figures are of."""
    judge, data, card = Path(result.judge), result.data, result.card
    levels = Table(
        head=("level and coefficient",),
        rows=[(signature(rho, card.unit, data.n_systems),) for rho in card.correlations],
        caption="Every level and coefficient.",
    )
    facts = [
        ("Judge", "/".join(judge.parts[-2:])),
        ("Labels", f"{data.name}, sha256 {data.sha256}"),
    ]
    answer = [*verification_answer(result), *gate_lines(result)]
    step = verification_step(result, has_page=True)
    # Beside a run's page, it must not take the place of the run's own.
    _write_misses(path.with_suffix(f".{MISSES}"), scored)
    write(
        path,
        f"{result.dimension}: {judge.name} against people",
        [
            Section(title="Answer", sentences=[*answer, figure_meaning(card, result.level)]),
            *([Section(title="What to do next", steps=[step])] if step else []),
            *_evidence(scored, {"judge": card.order}),
            Section(title="Figures", tables=[*_people(card.people), _failures(scored), levels]),
            Section(title="Where it comes from", titled=facts),
        ],
    )


def _evidence(scored: Scored, shares: Mapping[str, Figure]) -> list[Section]:
    """A judge's pictures, and its errors one by one."""
    drawn: list[RowChart | CountChart | None] = [charts.ratings(scored)]
    if scored.is_binary:
        errors = [_misses(scored, kind, rows) for kind, rows in misses(scored).items()]
    else:
        drawn.insert(0, charts.shares(shares))
        errors = [_disagreements(scored)]
    return [Section(title="In a picture", charts=drawn), *errors]


def _write_misses(path: Path, scored: Scored) -> None:
    """Write the table of all misses, where labels and verdicts are pass and fail."""
    if not scored.is_binary:
        return
    rows = miss_rows(scored)
    columns = list(dict.fromkeys([*MISS_COLUMNS, *chain(*rows)]))
    with RowWriter(path, columns=columns) as writer:
        for row in rows:
            writer.write(row)


def write_comparison(path: Path, result: JudgeComparison) -> None:
    """Write a comparison's page."""
    judges, data = result.judges, result.data
    points = {judge.name: (judge.card.headline, _cost(judge)) for judge in judges[:MAX_DRAWN]}
    meaning = f"Agreement with people. {figure_meaning(result.card, result.level)}"
    tables = [
        Table(head=head, rows=rows, caption=meaning) for head, rows in comparison_tables(result)
    ]
    use = ("judge", "failed", "ties", "seconds for 1,000", "calls", "spent", "plan")
    left_out = [(entry.name, entry.reason) for entry in result.left_out]
    labels = ("Labels", labels_text(data, result.card.unit))
    write(
        path,
        f"{result.dimension}: {counted(len(judges), 'judge')} side by side",
        [
            Section(title="Answer", titled=[*comparison_answer(result), labels]),
            Section(title="In a picture", charts=[charts.costs(points, result.figure_name)]),
            Section(title="What to do next", steps=[comparison_step(result)]),
            Section(
                title="Figures",
                tables=[
                    *tables,
                    Table(head=use, rows=list(map(_use, judges)), caption="Use and failures."),
                    Table(head=("left out", "why"), rows=left_out),
                ],
            ),
            Section(
                title="Where it comes from",
                titled=[("labels", f"{data.name}, sha256 {data.sha256}")],
            ),
        ],
    )


def _cost(judge: ComparedJudge) -> str:
    usage = judge.usage
    return "recorded" if usage.plan is None else cost_text(usage.cost_per_1000_rows)


def _use(judge: ComparedJudge) -> tuple[str, ...]:
    usage = judge.usage
    seconds, asked = usage.seconds_per_1000_rows, usage.plan is not None
    return (
        judge.name,
        f"{judge.card.rho.n_failed:,}",
        share_text(judge.card.ties),
        "" if seconds is None else f"{seconds:,.0f}",
        f"{usage.lm_calls:,}" if asked else "",
        cost_text(usage.cost_usd) if asked else "",
        usage.plan or "recorded",
    )


def worst_disagreements(scored: Scored) -> list[tuple[int, float]]:
    """(row, gap) where the judge's place is farthest from people's, farthest first.

    Gaps are differences of mid-ranks as a share of the places, within the document at summary level
    and over all outputs otherwise, above 0 where the judge ranks higher; of pairs half the
    difference of the margins. Left out are outputs to which both give the same number or, of pairs,
    the same side, and those that people do not tell from any other.
    """
    judge, human = scored.scores, scored.human
    gaps = np.zeros(len(human))
    if scored.is_pairs:
        gaps = np.where(np.sign(judge) == np.sign(human), 0, (judge - human) / 2)
    for rows in [] if scored.is_pairs else scored.ranked_rows:
        judged = rows[~np.isnan(judge[rows])]
        if judged.size > 1 and np.unique(human[judged]).size > 1:
            ranks = midranks(np.stack([judge[judged], human[judged]]))
            gaps[judged] = (ranks[0] - ranks[1]) / (judged.size - 1)
    gaps[np.isnan(gaps) | (np.abs(judge - human) < SAME)] = 0
    order = np.argsort(-np.abs(gaps), kind="stable")[:MAX_CASES]
    return [(int(row), float(gaps[row])) for row in order if gaps[row] != 0]


def _disagreements(scored: Scored) -> Section:
    """The worst disagreements with what the judge and every annotator said, and the texts."""
    if not (worst := worst_disagreements(scored)):
        nothing = ["No disagreement can be told from these labels and scores."]
        return Section(title="Worst disagreements", sentences=nothing)
    how = "among the outputs of its document" if scored.level == "summary" else "among all outputs"
    about = f"The outputs that the judge ranks farthest too high or too low {how}."
    if scored.is_pairs:
        about = "The pairs on which judge and people differ most; 1 is all for A, -1 all for B."
    cases = [_case(scored, row, gap) for row, gap in worst]
    return Section(title="Worst disagreements", sentences=[about], cases=cases)


def _misses(scored: Scored, kind: str, rows: Sequence[int]) -> Section:
    """All misses of a kind with what the judge and every annotator said, and the texts."""
    title, what = MISS_KINDS[kind]
    said = f"{counted(len(rows), 'output')} that {what}, those of which it was surest first."
    cases = [_case(scored, row) for row in rows]
    return Section(title=title, sentences=[said], cases=cases)


def _case(scored: Scored, row: int, gap: float = 0) -> Case:
    item, side = scored.items.items[row], ""
    people = scored.word(item.human) if scored.is_binary else f"{item.human:.2f}"
    if gap and not scored.is_pairs:
        rivals = next(rows for rows in scored.ranked_rows if row in rows)
        places = int((~np.isnan(scored.scores[rivals])).sum()) - 1
        side = f"{abs(gap) * places:g} of {places:,} places too {'high' if gap > 0 else 'low'}, "
    lines = [f"Judge: {scored.comment(row)}"] if scored.comment(row) else []
    if answer := scored.judgements[row].decided_by:
        lines.append(f"Decided by: {answer}")
    return Case(
        title=(
            f"{item.system or item.id} on {item.document_id}: {side}"
            f"judge {scored.scores[row]:.2f}, people {people}"
        ),
        lines=[*lines, *_people_said(scored, row)],
        texts=[(name, cut_text(text)) for name, text in scored.texts(row).items()],
    )


def _people_said(scored: Scored, row: int) -> list[str]:
    """A line for each annotator: the name, the rating, the comment, as far as they are known."""
    if len(scored.labelled) != len(scored.items):
        return []
    labelled = scored.labelled[row]
    if isinstance(labelled, LabelledOutput):
        given = [*map(scored.word, labelled.ratings.get(scored.dimension, ()))]
        names = labelled.annotators.get(scored.dimension, ())
        comments = labelled.comments.get(scored.dimension, ())
    else:
        given, names, comments = list(labelled.votes), (), labelled.comments
    if len(names) != len(given):
        names = tuple(map(str, range(1, len(given) + 1)))
    names = tuple(f"Annotator {name}" if name.isdigit() else name for name in names)
    if len(comments) == len(given):
        each = zip(names, given, comments, strict=True)
        return [f"{name}: {rating}. {comment}" for name, rating, comment in each]
    lines = [f"{name}: {rating}" for name, rating in zip(names, given, strict=True)]
    return [*([", ".join(lines)] if lines else []), *(f"People: {text}" for text in comments)]


def cut_text(text: str) -> str:
    """The text's beginning, and how much more there is."""
    further = len(text) - MAX_TEXT
    return text if further <= 0 else f"{text[:MAX_TEXT]} … ({further:,} more characters)"


def talked_up(probes: Probes, scored: Scored) -> list[tuple[str, float]]:
    """What each attack adds beyond a neutral line, as a share of the scale, where it adds."""
    width = scored.scale[-1] - scored.scale[0] if scored.scale else 2
    shifts = [pair for pair in probes.shifts if pair[1].n_outputs]
    control = next((shift.mean for attack, shift in shifts if attack.control), 0.0)
    return [
        (attack.title, (shift.mean - control) / width)
        for attack, shift in shifts
        if shift.mean > control
    ]


def _attempts(probes: Probes) -> Table:
    """What lines that ask for a better score change."""
    rows = [
        (
            attack.title,
            number_text(shift.mean, signed=True),
            f"{shift.raised:.0%}",
            str(shift.n_outputs),
        )
        for attack, shift in probes.shifts
        if shift.n_outputs
    ]
    why_not = "" if rows else f" Not tried: {probes.reason or 'no output got a score'}."
    return Table(
        head=("line added to the output", "change of score", "raised", "tried"),
        rows=rows,
        caption=f"Can an output talk the judge up?{why_not}",
    )


def _failures(scored: Scored) -> Table:
    """Why outputs have no score."""
    failures = [(name, why[:MAX_REASON]) for name, why in scored.failures.items()]
    caption = (
        f"{len(failures):,} of {len(scored.items):,} have no score: they are left out of every "
        "figure, and counted."
    )
    return Table(
        head=("without a score", "why"),
        rows=failures[:MAX_FAILURES],
        caption=caption if failures else "Every output has a score.",
    )


def _people(people: PeopleFigures | None) -> list[Table]:
    """The judge beside each annotator, and every two annotators."""
    if not people:
        return []
    rows = []
    for row in people.agreement[:MAX_CASES]:
        names = people.names_of(row)
        who = " and ".join(names if len(names) == 2 else ("judge", *names))
        rows.append((who, share_text(row.equal), number_text(row.kappa), number_text(row.rho)))
    alpha = number_text(people.alpha)
    caption = f"The judge and people; the annotators' Krippendorff's alpha is {alpha}."
    return [Table(head=("who", "equal labels", "kappa", "rho"), rows=rows, caption=caption)]


def _judge(result: TuningResult, prompts: Mapping[str, Prompt]) -> Section:
    """The tuned prompt beside the untuned one, and where the judge comes from."""
    untuned, tuned = prompts["seed"], prompts["tuned"]
    changed = "words that tuning took out are struck through, those it put in are marked"
    demos = f"{len(tuned.demos):,} in the tuned prompt, {len(untuned.demos)} before"
    if len(tuned.demos) > MAX_DEMOS:
        demos += f"; the first {MAX_DEMOS} are below"
    facts = [
        ("Instruction", changed if untuned.instruction != tuned.instruction else "unchanged"),
        ("Writes", ", then ".join(field.name for field in tuned.outputs)),
        ("Demonstrations", demos),
        ("Labels", f"{result.data.name}, sha256 {result.data.sha256}"),
        ("Search", f"{result.optimizer}, seed {result.seed}"),
    ]
    return Section(
        title="The tuned judge",
        titled=facts,
        tables=_answers(result),
        texts=[("instruction", word_difference(untuned.instruction, tuned.instruction))],
        cases=[
            Case(
                title=f"Demonstration {number}",
                texts=[(name, cut_text(str(value))) for name, value in demo.items()],
            )
            for number, demo in enumerate(tuned.demos[:MAX_DEMOS], start=1)
        ],
    )


def _answers(result: TuningResult) -> list[Table]:
    """What the tuned judge asks, what each answer counts, and what it would lose without it."""
    if not result.answers:
        return []
    rows = [
        (
            each.name,
            each.text,
            " or ".join(map(str, each.answers)),
            f"{each.share:.0%}",
            "" if each.loss is None else number_text(-each.loss, signed=True),
        )
        for each in result.answers
    ]
    head = ("answer", "asks", "answers", "share of the score", "without it")
    figure = "balanced accuracy" if result.objective == "balanced" else "rho"
    caption = (
        "What it answers in one reply. People's labels taught the shares; the last column is what "
        f"{figure} would change by without the question, on the labels that teach."
    )
    return [Table(head=head, rows=rows, caption=caption)]


def word_difference(before: str, after: str) -> Markup:
    """Word by word: what was deleted from `before` and inserted to make `after`."""
    old, new = before.split(" "), after.split(" ")
    pieces: list[Markup] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, start_new, end_new in matcher.get_opcodes():
        deleted, inserted = " ".join(old[start:end]), " ".join(new[start_new:end_new])
        if kind == "equal":
            pieces.append(escape(deleted))
            continue
        if deleted:
            pieces.append(Markup("<del>{}</del>").format(deleted))
        if inserted:
            pieces.append(Markup("<ins>{}</ins>").format(inserted))
    return Markup(" ").join(pieces)
