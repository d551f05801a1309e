"""Judge rows as they come, with the unusable ones among them: they fail, and are not sent."""

import math
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from judges.dimension import Comparison
from judges.judgement import Judgement, Verdict

if TYPE_CHECKING:
    from judges.engine.runner import Runner
    from judges.judge import Judge, Said


def judge_rows(
    judge: "Judge",
    rows: Iterable[Mapping[str, object]],
    runner: "Runner",
    *,
    order: Literal["both", "random"] = "both",
    seed: int = 0,
) -> Generator["Said", None, None]:
    """One judgement or verdict for each row, in order and streaming."""
    # What each row pulled so far is: a reason why it cannot be sent, or None.
    pulled: deque[str | None] = deque()

    def usable() -> Iterator[dict[str, str]]:
        for row in rows:
            why = unusable(judge, row)
            pulled.append(why)
            if why is None:
                yield {name: str(one_text(row[name])) for name in judge.texts}

    for said in _ask(judge, usable(), runner, order=order, seed=seed):
        while (why := pulled.popleft()) is not None:
            yield failed(judge, why)
        yield said
    for why in pulled:
        yield failed(judge, why or "not asked")


def unusable(judge: "Judge", row: Mapping[str, object]) -> str | None:
    """Why a row cannot be judged: a text that is missing or blank; None if it can.

    One of two outputs may be blank: some systems say nothing, and would gain if that went unseen.
    """
    blank: list[str] = []
    for name in judge.texts:
        text = one_text(row.get(name))
        if not isinstance(text, str):
            return f"no {name}" if _missing(text) else f"{name} is {type(text).__name__}, no text"
        if not text.strip():
            blank.append(name)
    if (
        len(blank) == 1
        and isinstance(judge.subject, Comparison)
        and blank[0] in judge.subject.fields
    ):
        return None
    return f"{blank[0]} is empty" if blank else None


def one_text(value: object) -> object:
    """A list of texts, such as reviews, as one text, as label files are read; else the value."""
    if not isinstance(value, list | tuple) and hasattr(value, "tolist"):
        # A data frame's cell.
        value = value.tolist()
    if not isinstance(value, list | tuple) or not any(isinstance(one, str) for one in value):
        return value
    if not all(one is None or isinstance(one, str) for one in value):
        return value
    return "\n\n".join(one for one in value if one and one.strip())


def _missing(value: object) -> bool:
    """None, or what pandas puts in its place: NaN, NA, NaT."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in {"NAType", "NaTType"}
    )


def failed(judge: "Judge", why: str) -> "Said":
    return Verdict.failed(why) if judge.kind == "pairwise" else Judgement.failed(why)


def _ask(
    judge: "Judge",
    rows: Iterator[dict[str, str]],
    runner: "Runner",
    *,
    order: Literal["both", "random"],
    seed: int,
) -> Iterator["Said"]:
    from judges.engine import judging

    plan, template = judge.plan_for(runner.model), judge.template()
    if isinstance(judge.subject, Comparison):
        return judging.judge_pairs(
            judge.prompt,
            judge.subject.fields,
            plan,
            rows,
            runner,
            order=order,
            seed=seed,
            template=template,
        )
    return judging.judge_outputs(judge.prompt, plan, rows, runner, seed=seed, template=template)
