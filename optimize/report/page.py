"""A self-contained HTML page of a run, a verification, a comparison or a panel.

One template draws every page. It escapes all texts and asks for nothing elsewhere. Where there are
misses, its one script hides and shows them; the policy allows that script by its digest alone.
"""

import difflib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import chain
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from judges.prompt import Prompt, encodable
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import RowWriter
from judges.terminal import visible
from optimize.figures.as_text import number_text, signature
from optimize.items import DataCounts
from optimize.measuring.comparison import JudgeComparison
from optimize.measuring.injection import Probes
from optimize.measuring.misses import MISS_COLUMNS, miss_rows
from optimize.measuring.scored import Scored
from optimize.measuring.tuning_result import TuningResult
from optimize.measuring.verification import Verification
from optimize.report import charts
from optimize.report.answer import Answer, Table, Titled
from optimize.report.card import labels_text, people_facts
from optimize.report.charts import Chart
from optimize.report.comparison import comparison_answer, price_text, usage_table
from optimize.report.misses import MissGroup, cut_text, miss_groups
from optimize.report.tuning import run_answer
from optimize.report.verification import MISSES, verification_answer

# Failures, characters of a failure's reason, demonstrations, and judges that are shown.
MAX_FAILURES, MAX_REASON, MAX_DEMOS, MAX_DRAWN = 20, 300, 5, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page; what it lacks is left out. Backticks in steps become code.

    `folded` are texts by name under a title each, which a reader unfolds.
    """

    title: str
    titled: Sequence[Titled] = ()
    steps: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    texts: Sequence[tuple[str, str | Markup]] = ()
    folded: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: the first screen, the misses if there are any to look at, then the sections."""

    answer: Answer
    groups: Sequence[MissGroup] = ()
    sections: Sequence[Section] = ()
    groups_title: str = "Misses"

    @property
    def choices(self) -> dict[str, list[str]]:
        """The systems, questions and annotators of the misses, to choose from."""
        each = [miss for group in self.groups for miss in group.misses]
        names = {
            "system": {miss["system"] for miss in each},
            "question": {miss["decided_by"] for miss in each},
            "annotator": {name for miss in each for name, _ in miss["people"]},
        }
        return {kind: sorted(filter(None, own)) for kind, own in names.items()}


def write(path: Path, page: Page) -> None:
    """Write the page whole or not at all."""
    write_atomically(path, encodable(html(page)).encode(), overwrite=True)


def html(page: Page) -> str:
    """The page; what would turn letters round or hide them is written out."""
    script = files("optimize.report").joinpath("templates/misses.js").read_text(encoding="utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    template = _environment().get_template("page.html")
    return visible(template.render(page=page, script=Markup(script), digest=digest))


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
    return Markup(re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(sentence))))


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
    scored, folder = judged[result.shipped]["test"], str(path.parent)
    answer = run_answer(result, talked_up(probes, scored), folder)
    more, tables = answer.steps[1:], [charts.counts(scored), _attempts(probes), _failures(scored)]
    # The page comes last: where it stands, a run has ended.
    _write_misses(path.with_name(MISSES), scored)
    search = ("Search", f"{result.optimizer}, seed {result.seed}")
    page = Page(
        answer=answer,
        groups=miss_groups(scored),
        sections=[
            *([Section(title="What else to do", steps=more)] if more else []),
            Section(
                title="Figures",
                titled=[*answer.facts, *people_facts(result.card)],
                charts=charts.pictures(scored),
                tables=[*answer.tables, *tables],
            ),
            _prompt(result, prompts),
            source_section(result.data, search, ("Folder", folder)),
        ],
    )
    write(path, page)


def write_verification(path: Path, result: Verification, scored: Scored) -> None:
    """Write a verification's page; `scored` are the judgements that its figures are of."""
    answer, card, judge = verification_answer(result), result.card, Path(result.judge)
    labels = ("Counts", labels_text(result.data, card.unit))
    about = card.unit, result.data.n_systems
    levels = dict.fromkeys((signature(rho, *about),) for rho in card.correlations)
    every = Table(("level and coefficient",), [*levels], "Every level and coefficient.")
    # Beside a run's page, it must not take the place of the run's own.
    _write_misses(path.with_suffix(f".{MISSES}"), scored)
    page = Page(
        answer=answer,
        groups=miss_groups(scored),
        sections=[
            Section(
                title="Figures",
                titled=[*answer.facts, *people_facts(card)],
                charts=charts.pictures(scored),
                tables=[charts.counts(scored), _failures(scored), every],
            ),
            source_section(result.data, labels, ("Judge", "/".join(judge.parts[-2:]))),
        ],
    )
    write(path, page)


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
    answer = comparison_answer(result)
    left_out = [(entry.name, entry.reason) for entry in result.left_out]
    priced = [
        (judge.name, judge.card.headline, price_text(judge)) for judge in result.judges[:MAX_DRAWN]
    ]
    figures = Section(
        title="Figures",
        titled=answer.facts,
        charts=charts.costs(priced, result.figure_name),
        tables=[*answer.tables, usage_table(result), Table(("left out", "why"), left_out)],
    )
    write(path, Page(answer=answer, sections=[figures, source_section(result.data)]))


def source_section(data: DataCounts, *facts: Titled) -> Section:
    titled = [("Labels", f"{data.name}, sha256 {data.sha256}"), *facts]
    return Section(title="Where it comes from", titled=titled)


def talked_up(probes: Probes, scored: Scored) -> list[tuple[str, float]]:
    """What each attack adds beyond a neutral line, as a share of the scale, where it adds."""
    width = scored.scale[-1] - scored.scale[0] if scored.scale else 2
    control = next((s.mean for attack, s in probes.shifts if attack.control and s.n_outputs), 0.0)
    return [
        (attack.title, (shift.mean - control) / width)
        for attack, shift in probes.shifts
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
    head = ("line added to the output", "change of score", "raised", "tried")
    return Table(head, rows, f"Can an output talk the judge up?{why_not}")


def _failures(scored: Scored) -> Table:
    """Why outputs have no score."""
    failures = [(name, why[:MAX_REASON]) for name, why in scored.failures.items()]
    caption = "Every output has a score."
    if failures:
        number = f"{len(failures):,} of {len(scored.items):,}"
        caption = f"{number} have no score: they are left out of every figure, and counted."
    return Table(("without a score", "why"), failures[:MAX_FAILURES], caption)


def _prompt(result: TuningResult, prompts: Mapping[str, Prompt]) -> Section:
    """The prompt that ships, what tuning changed in it, its demonstrations and questions."""
    untuned, tuned, shipped = prompts["seed"], prompts["tuned"], prompts[result.shipped]
    demos = f"{len(tuned.demos):,} in the tuned prompt, {len(untuned.demos)} before"
    if len(shipped.demos) > MAX_DEMOS:
        demos += f"; the first {MAX_DEMOS} are below"
    instruction: str | Markup = shipped.instruction
    folded: dict[str, Sequence[tuple[str, str]]] = {}
    if untuned.instruction == tuned.instruction:
        changed = "tuning left it as it was"
    elif result.shipped == "tuned":
        changed = "sentences that tuning took out are struck through, those it put in are marked"
        instruction = sentence_difference(untuned.instruction, tuned.instruction)
    else:
        changed = "the untuned one ships; the tuned one is below"
        folded["The tuned prompt"] = [("instruction", tuned.instruction)]
    for number, demo in enumerate(shipped.demos[:MAX_DEMOS], start=1):
        texts = [(name, cut_text(str(value))) for name, value in demo.items()]
        folded[f"Demonstration {number}"] = texts
    return Section(
        title="The prompt that ships",
        titled=[
            ("Instruction", changed),
            ("Writes", ", then ".join(field.name for field in shipped.outputs)),
            ("Demonstrations", demos),
        ],
        tables=_answers(result),
        texts=[("instruction", instruction)],
        folded=folded,
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
    figure = "balanced accuracy" if result.objective == "balanced" else "rho"
    caption = (
        "What it answers in one reply. People's labels taught the shares; the last column is what "
        f"{figure} would change by without the question, on the labels that teach."
    )
    return [Table(("answer", "asks", "answers", "share of the score", "without it"), rows, caption)]


def sentence_difference(before: str, after: str) -> Markup:
    """Sentence by sentence: what was deleted from `before` and inserted to make `after`."""
    old, new = (re.findall(r".+?(?:[.!?:]\s+|\n+|$)", text, re.DOTALL) for text in (before, after))
    sides = ([*map(str.strip, old)], [*map(str.strip, new)])
    pieces: list[Markup] = []
    matcher = difflib.SequenceMatcher(None, *sides, autojunk=False)
    for kind, start, end, start_new, end_new in matcher.get_opcodes():
        if kind == "equal":
            pieces += map(escape, new[start_new:end_new])
            continue
        pieces += [Markup("<del>{}</del> ").format(each.strip()) for each in old[start:end]]
        pieces += [Markup("<ins>{}</ins>").format(each) for each in new[start_new:end_new]]
    return Markup("").join(pieces)
