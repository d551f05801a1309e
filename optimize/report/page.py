"""A self-contained HTML page on a run, a verification, a comparison or a panel.

One template makes every page. The template escapes all texts and loads nothing from elsewhere. A
page with misses has a script that filters them; the page's security policy allows no other script.
"""

import difflib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from itertools import chain
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from judges.prompt import Prompt, utf8_text
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import RowWriter
from judges.tables.problems import count_text
from judges.terminal import escape_invisible
from optimize.figures.as_json import JsonObject
from optimize.figures.as_text import number_text
from optimize.figures.by_judge import ByJudge
from optimize.items import DataCounts
from optimize.measuring.comparison import JudgeComparison
from optimize.measuring.injection import ProbeResult
from optimize.measuring.misses import Miss, MissKind, find_misses
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import ScoredItems
from optimize.measuring.tuning_result import TuningResult
from optimize.measuring.verification import Verification
from optimize.report import card
from optimize.report.answer import Fact, ReportAnswer, ReportTable
from optimize.report.charts import DotChart, IntervalChart, count_table, dot_charts, interval_charts
from optimize.report.comparison import comparison_answer, cost_table
from optimize.report.tuning import tuning_answer
from optimize.report.verification import MISSES_FILE, verification_answer

NamedTexts = Sequence[tuple[str, str]]
# A page shows at most this many failures, characters of a failure's reason, demonstrations, and
# characters of a text.
MAX_FAILURES, MAX_REASON, MAX_DEMOS, MAX_TEXT = 20, 300, 5, 1500
SUREST_FIRST, WORST_FIRST = "The judge's surest verdicts come first.", "The worst come first."
KIND_TITLES: dict[MissKind, tuple[str, str]] = {
    "false pass": ("False passes", f"People fail them, the judge passes them. {SUREST_FIRST}"),
    "false alarm": ("False alarms", f"People pass them, the judge fails them. {SUREST_FIRST}"),
    "too high": ("Too high", f"The judge ranks them far higher than people do. {WORST_FIRST}"),
    "too low": ("Too low", f"The judge ranks them far lower than people do. {WORST_FIRST}"),
    "wrong side": ("Wrong side", f"The judge does not prefer what people prefer. {WORST_FIRST}"),
}
# The columns of the table of misses, before the further texts that the judge read.
MISS_COLUMNS = (
    *("miss", "id", "document_id", "system", "label", "verdict", "score"),
    *("comment", "reason", "decided_by", "output"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page. The texts in `folded` appear when a reader opens their title."""

    title: str
    facts: Sequence[Fact] = ()
    charts: Sequence[DotChart | IntervalChart] = ()
    tables: Sequence[ReportTable] = ()
    texts: Sequence[tuple[str, str | Markup]] = ()
    folded: Mapping[str, NamedTexts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissGroup:
    """The misses of one kind, such as false passes, with the worst miss first."""

    title: str
    caption: str
    misses: Sequence[Miss]


def write_page(
    path: Path,
    answer: ReportAnswer,
    sections: Sequence[Section],
    groups: Sequence[MissGroup] = (),
    groups_title: str = "Misses",
) -> None:
    """Write a page as HTML; invisible and text-reversing characters are made visible."""
    script = files("optimize.report").joinpath("templates/misses.js").read_text(encoding="utf-8")
    script_digest = b64encode(sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("optimize.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": backticks_as_code, "cut": cut_text}
    html = environment.get_template("page.html").render(
        answer=answer,
        sections=sections,
        groups=groups,
        groups_title=groups_title,
        script=Markup(script),
        digest=script_digest,
    )
    write_atomically(path, utf8_text(escape_invisible(html)).encode(), overwrite=True)


def backticks_as_code(sentence: str) -> Markup:
    """Escape a sentence, and mark text between backticks as code."""
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))


def write_run(
    path: Path,
    result: TuningResult,
    scored_items: ScoredItems,
    prompts: ByJudge[Prompt],
    probes: ProbeResult,
) -> None:
    """Write the page on a tuning run; `scored_items` are the test outputs with their scores."""
    answer = tuning_answer(result, str(path.parent))
    figures = _figures_section(answer, result.scorecard, scored_items, _probe_table(probes))
    # The page is written after the misses, because its file marks the end of a run.
    groups = _write_misses(path.with_name(MISSES_FILE), scored_items)
    sections = [figures, _prompt_section(result, prompts), source_section(result.data_counts)]
    write_page(path, answer, sections, groups)


def write_verification(path: Path, result: Verification, scored_items: ScoredItems) -> None:
    """Write the page on a verification, which was computed from `scored_items`."""
    answer, scorecard, counts = verification_answer(result), result.scorecard, result.data_counts
    rows = [(line,) for line in card.correlation_lines(scorecard, counts.n_systems)]
    caption = f"Every level and coefficient. {card.unweighted_sentence(counts)}"
    correlation_table = ReportTable(("level and coefficient",), rows, caption)
    figures = _figures_section(answer, scorecard, scored_items, correlation_table)
    # The table of misses is named after the page, so that it never replaces a run's misses.csv.
    groups = _write_misses(path.with_suffix(f".{MISSES_FILE}"), scored_items)
    write_page(path, answer, [figures, source_section(counts)], groups)


def _figures_section(
    answer: ReportAnswer, scorecard: Scorecard | None, scored_items: ScoredItems, table: ReportTable
) -> Section:
    facts = [*answer.facts, *card.annotator_facts(scorecard, scored_items.labels.n_tied)]
    tables = [*answer.tables, count_table(scored_items), table, _failure_table(scored_items)]
    return Section(title="Figures", facts=facts, charts=dot_charts(scored_items), tables=tables)


def _write_misses(path: Path, scored_items: ScoredItems) -> list[MissGroup]:
    """Return the misses by kind; those of a judge of pass or fail are also written as a table."""
    groups, rows = [], list[JsonObject]()
    for kind, misses in find_misses(scored_items).items():
        kind_title, caption = KIND_TITLES[kind]
        unit_noun = "pair" if scored_items.is_pairwise else "output"
        title = f"{kind_title}: {count_text(len(misses), unit_noun)}"
        groups.append(MissGroup(title=title, caption=caption if misses else "", misses=misses))
        rows += [miss.to_json() for miss in misses]
    if scored_items.has_verdicts:
        columns = list(dict.fromkeys([*MISS_COLUMNS, *chain(*rows)]))
        with RowWriter(path, columns=columns) as writer:
            for row in rows:
                writer.write(row)
    return groups


def write_comparison(path: Path, result: JudgeComparison) -> None:
    answer = comparison_answer(result)
    left_out = [(entry.name, entry.why_unscored) for entry in result.left_out]
    tables = [*answer.tables, cost_table(result), ReportTable(("left out", "why"), left_out)]
    figure_by_name = {judge.name: judge.scorecard.headline for judge in result.judges}
    charts = interval_charts(figure_by_name, result.scorecard.headline_name)
    section = Section(title="Figures", facts=answer.facts, charts=charts, tables=tables)
    write_page(path, answer, [section, source_section(result.data_counts)])


def source_section(label_counts: DataCounts) -> Section:
    facts = [("Labels", f"{label_counts.name}, sha256 {label_counts.sha256}")]
    return Section(title="Where it comes from", facts=facts)


def _probe_table(probes: ProbeResult) -> ReportTable:
    rows = []
    for title, shift in probes.shifts.items():
        if shift.n_outputs:
            change, raised = number_text(shift.mean, signed=True), f"{shift.raised_share:.0%}"
            rows.append((title, change, raised, str(shift.n_outputs)))
    caption = "Can an output talk the judge into a higher score?"
    if rows:
        caption += " If scores rise, the judge must not rate authors who gain from a high score."
    else:
        caption += f" Not tried: {probes.reason or 'no output got a score'}."
    column_names = ("line added to the output", "change of score", "raised", "tried")
    return ReportTable(column_names, rows, caption)


def _failure_table(scored_items: ScoredItems) -> ReportTable:
    rows = [(name, reason[:MAX_REASON]) for name, reason in scored_items.failures.items()]
    caption = "Every output has a score."
    if rows:
        share = f"{len(rows):,} of {len(scored_items.items):,}"
        caption = f"{share} have no score: they are counted here and left out of every figure."
    return ReportTable(("without a score", "why"), rows[:MAX_FAILURES], caption)


def _prompt_section(result: TuningResult, prompts: ByJudge[Prompt]) -> Section:
    untuned, tuned, shipped = prompts.untuned, prompts.tuned, prompts.for_judge(result.shipped)
    marked_text = sentence_difference(untuned.instruction, shipped.instruction)
    change_text = "sentences that tuning deleted are struck through, new ones are marked"
    folded: dict[str, NamedTexts] = {}
    if untuned.instruction == tuned.instruction:
        change_text = "tuning did not change the instruction"
    elif result.shipped != "tuned":
        change_text = "the untuned instruction ships; the tuned instruction is below"
        folded["The tuned prompt"] = [("instruction", tuned.instruction)]
    for number, demo in enumerate(shipped.demos[:MAX_DEMOS], start=1):
        texts = [(name, cut_text(str(value))) for name, value in demo.items()]
        folded[f"Demonstration {number} of {len(shipped.demos):,}"] = texts
    return Section(
        title="The prompt that ships",
        facts=[("Instruction", change_text)],
        tables=_answer_tables(result),
        texts=[("instruction", marked_text)],
        folded=folded,
    )


def _answer_tables(result: TuningResult) -> list[ReportTable]:
    if not result.answers:
        return []
    rows = []
    for answer in result.answers:
        change = "" if answer.loss is None else number_text(-answer.loss, signed=True)
        options_text = " or ".join(map(str, answer.answers))
        rows.append((answer.name, answer.text, options_text, f"{answer.share:.0%}", change))
    figure_name = "balanced accuracy" if result.objective == "balanced" else "rho"
    caption = (
        "The questions that the judge answers in one reply. Their shares were learned from "
        f"people's labels. The last column is the change in {figure_name} without the question."
    )
    column_names = ("answer", "asks", "answers", "share of the score", "without it")
    return [ReportTable(column_names, rows, caption)]


def cut_text(text: str, max_characters: int = MAX_TEXT) -> str:
    """Return the beginning of a text, and how many characters were cut off."""
    n_more = len(text) - max_characters
    return text if n_more <= 0 else f"{text[:max_characters]} … ({n_more:,} more characters)"


def sentence_difference(before: str, after: str) -> Markup:
    """Mark the sentences that were deleted from `before` and inserted into `after`, as HTML."""
    old, new = (re.findall(r".+?(?:[.!?:]\s+|\n+|$)", text, re.DOTALL) for text in (before, after))
    stripped_old, stripped_new = [*map(str.strip, old)], [*map(str.strip, new)]
    html_parts: list[Markup] = []
    matcher = difflib.SequenceMatcher(None, stripped_old, stripped_new, autojunk=False)
    for change, start, end, new_start, new_end in matcher.get_opcodes():
        if change == "equal":
            html_parts += map(escape, new[new_start:new_end])
            continue
        html_parts += [Markup("<del>{}</del> ").format(text) for text in stripped_old[start:end]]
        html_parts += [Markup("<ins>{}</ins>").format(text) for text in new[new_start:new_end]]
    return Markup("").join(html_parts)
