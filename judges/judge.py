"""A judge to use: what it judges, how it asks, how replies become a score, where it came from.

`judge(document=..., summary=...)` judges one output, `judge.score(frame)` a whole table;
`program()` gives the DSPy module that asks the same, `save()` freezes all of it in one file.
"""

import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from judges.dimension import Comparison, Dimension, DimensionError
from judges.engine.session import Options, open_runner
from judges.judgement import Judgement, Verdict
from judges.prompt import Field, Prompt, Value
from judges.scoring import SamplingPlan

if TYPE_CHECKING:
    import dspy
    import pandas as pd

    from judges.engine.runner import Runner
    from judges.models.protocol import Model

Subject = Dimension | Comparison
Kind = Literal["rating", "pairwise"]
Said = Judgement | Verdict

# What a judge writes, and what DSPy 3.4's Signature, Predict and Example take for their own.
RESERVED = frozenset(
    {
        *("rating", "rationale", "comparison", "preferred", "completed"),
        *("signature", "new_signature", "instructions", "fields", "input_fields", "output_fields"),
        *("config", "model_config", "demos", "lm", "completions", "self"),
    }
)


# The sets that ship, whose labels are computed from known faults.
STARTER = ("starter", "starter_pairs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A rating judge or a pairwise judge, ready to run.

    `plan` None leaves the way to a score to the model (`sampling.default_plan`), as catalogue
    judges do; a frozen judge has its own. `lm` is the model it asks unless told otherwise, and
    `api_base` the endpoint, which only its user names. `from_file`: a file named `lm`, so that it
    is asked only where it is a known provider's plain model (see `model_to_ask`).
    """

    subject: Subject
    prompt: Prompt
    plan: SamplingPlan | None = None
    lm: str = "embedded"
    provenance: Mapping[str, object] | None = None
    api_base: str | None = dataclasses.field(default=None, compare=False, repr=False)
    from_file: bool = dataclasses.field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_fit(self.subject, self.prompt)
        object.__setattr__(self, "prompt", _settled(self.prompt))

    def __repr__(self) -> str:
        """On one line: a prompt with demos holds whole documents."""
        sampling = f"plan {self.plan.kind}" if self.plan else "the model's own plan"
        origin = "frozen after tuning" if self.provenance else "not tuned"
        return (
            f"Judge({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, "
            f"{len(self.prompt.demos)} demos, lm {self.lm!r}, {sampling}, {origin})"
        )

    @classmethod
    def of(cls, subject: Subject, *, rationale: bool = False, lm: str = "embedded") -> "Judge":
        """The seed judge of a dimension or comparison; a comparison always gives its reasons."""
        return cls(subject=subject, prompt=_seed_prompt(subject, rationale=rationale), lm=lm)

    @classmethod
    def from_program(
        cls,
        program: "dspy.Module",
        subject: Subject,
        *,
        plan: SamplingPlan | None = None,
        lm: str = "embedded",
        provenance: Mapping[str, object] | None = None,
    ) -> "Judge":
        """Read instructions and demos off a DSPy module with one predictor (see `program`)."""
        from judges.adapter import prompt_of

        predictors = program.predictors()
        if len(predictors) != 1:
            raise ValueError(f"a judge has one predictor; this program has {len(predictors)}")
        prompt = prompt_of(predictors[0].signature, predictors[0].demos)
        return cls(subject=subject, prompt=prompt, plan=plan, lm=lm, provenance=provenance)

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def kind(self) -> Kind:
        return "pairwise" if isinstance(self.subject, Comparison) else "rating"

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the texts it reads, in the order shown."""
        return tuple(field.name for field in self.prompt.inputs)

    @property
    def constructed(self) -> bool:
        """Whether it was tuned on constructed labels, which no person gave."""
        source = (self.provenance or {}).get("data")
        if not isinstance(source, Mapping) or (self.provenance or {}).get("shipped") == "seed":
            return False
        # Files of earlier releases name the starter set and say no more.
        return bool(source.get("constructed", source.get("name") in STARTER))

    @property
    def endpoint(self) -> str | None:
        """Where the model of its run answered; nothing is sent there until its user says so."""
        recorded = (self.provenance or {}).get("endpoint")
        return recorded if isinstance(recorded, str) else None

    def model_to_ask(
        self, lm: str | None = None, api_base: str | None = None
    ) -> tuple[str, str | None]:
        """The model and the endpoint to ask: those that its user names, else its own model.

        Raises LastingError where only its file names what may be a stranger's choice (a model that
        is no known provider's), and where its run had another endpoint than would be asked now.
        """
        from judges.models.opening import check_endpoint, check_model, check_name
        from judges.models.protocol import LastingError

        asked, base = lm or self.lm, api_base or self.api_base
        check_name(asked)
        try:
            if self.from_file and lm is None:
                check_model(self.lm)
            provider = self.lm.partition("/")[0]
            if self.endpoint and asked.partition("/")[0] == provider and "/" in asked:
                check_endpoint(asked, self.endpoint, base)
        except LastingError as error:
            raise LastingError(f"{self.name}: {error}") from None
        return asked, base

    def plan_for(self, model: "Model") -> SamplingPlan:
        """Its own plan, or the model's default where it has none."""
        from judges.scoring import default_plan

        return self.plan or default_plan(model)

    def settled_plan(self) -> SamplingPlan:
        """The plan it follows with its own model."""
        if self.plan is not None:
            return self.plan
        from judges.models import open_model

        return self.plan_for(open_model(self.lm, api_base=self.api_base))

    def __call__(self, **texts: str) -> Said:
        """Judge one output, or one pair in both orders; a failed judgement says why."""
        unknown = texts.keys() - set(self.texts)
        missing = [name for name in self.texts if name not in texts]
        if unknown or missing:
            raise TypeError(
                f"the judge {self.name!r} reads {', '.join(self.texts)}"
                + (f"; not given: {', '.join(missing)}" if missing else "")
                + (f"; not known: {', '.join(sorted(unknown))}" if unknown else "")
            )
        lm, api_base = self.model_to_ask()
        with open_runner(lm, api_base=api_base) as runner:
            return next(self.judge_rows([texts], runner))

    def judge_rows(
        self,
        rows: Iterable[Mapping[str, object]],
        runner: "Runner",
        *,
        order: Literal["both", "random"] = "both",
        seed: int = 0,
    ) -> Generator[Said, None, None]:
        """Judge a stream of rows in their order; a row that lacks a text fails and is not sent."""
        from judges.engine.judging_rows import judge_rows

        return judge_rows(self, rows, runner, order=order, seed=seed)

    def judge_all(
        self, rows: Iterable[Mapping[str, object]], **options: Unpack[Options]
    ) -> Iterator[Said]:
        """Judge a stream of rows with options as for `score`, rationales and all."""
        from judges.tables.frames import judge_all

        return judge_all(self, rows, **options)

    def score(self, frame: "pd.DataFrame", **options: Unpack[Options]) -> "pd.Series[float]":
        """Score every row of a DataFrame; the Series has the frame's index, failures are NaN.

        A pairwise judge gives its margin in [-1, 1], positive for A. `attrs["n_failed"]` counts
        failures and `attrs["failures"]` counts each reason.
        """
        from judges.tables.frames import score_frame

        return score_frame(self, frame, **options)

    def mapper(self, **options: Unpack[Options]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """A plain function for `datasets.Dataset.map`, for single rows or `batched=True`."""
        from judges.tables.frames import mapper

        return mapper(self, **options)

    def map_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What `mapper` does, with the judge's own model."""
        return self.mapper()(row)

    def program(self) -> "dspy.Module":
        """A DSPy module that renders the same messages: compose it, or optimize it further."""
        from judges.adapter import demos_of
        from judges.modules import PairwiseJudge, RatingJudge

        if isinstance(self.subject, Comparison):
            module: Any = PairwiseJudge(self.subject, prompt=self.prompt)
        else:
            module = RatingJudge(self.subject, prompt=self.prompt)
        module.judge.demos = demos_of(self.prompt)
        return module

    def with_plan(self, plan: SamplingPlan | None) -> "Judge":
        """The same judge with another way from replies to a score."""
        return replace(self, plan=plan)

    def with_prompt(self, *, instruction: str | None = None, demos: Any = None) -> "Judge":
        """The same judge with another instruction or other demos."""
        prompt = replace(
            self.prompt,
            instruction=self.prompt.instruction if instruction is None else instruction,
            demos=self.prompt.demos if demos is None else tuple(demos),
        )
        return replace(self, prompt=prompt)

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Freeze into one JSON file, atomically; FileExistsError unless `overwrite`."""
        from judges.frozen import save

        return save(self, path, overwrite=overwrite)


def _seed_prompt(subject: Subject, *, rationale: bool) -> Prompt:
    if isinstance(subject, Comparison):
        return subject.prompt()
    return subject.prompt(rationale=rationale)


def _settled(prompt: Prompt) -> Prompt:
    """The same prompt, with every part as DSPy and UTF-8 files keep it.

    DSPy keeps an instruction as a docstring, without common indents; a lone surrogate has no UTF-8
    (rendering replaces it just so).
    """
    instruction = _dedented(_mended(prompt.instruction))
    demos = tuple(
        {field.name: _mended(demo[field.name]) for field in prompt.fields} for demo in prompt.demos
    )
    return replace(prompt, instruction=instruction, demos=demos)


def _dedented(text: str) -> str:
    """What inspect.cleandoc makes of a text in the end, for it is not idempotent.

    In one pass: that takes off blank first lines one by one, a minute for a hundred thousand.
    """
    lines = text.expandtabs().split("\n")
    first = next((place for place, line in enumerate(lines) if line.strip()), len(lines))
    rest = lines[first + 1 :]
    indents = [_indent(line) for line in rest if line.strip()]
    # Without a line of words after it, the first word's own line was the only one to measure.
    margin = min(indents, default=_indent(lines[first]) if 0 < first < len(lines) else 0)
    kept = [line.lstrip() for line in lines[first : first + 1]] + [line[margin:] for line in rest]
    while kept and not kept[-1]:
        kept.pop()
    return "\n".join(kept)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _mended(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _check_fit(subject: Subject, prompt: Prompt) -> None:
    """A judge's prompt reads its subject's texts and writes on its subject's scale."""
    for name in (field.name for field in prompt.inputs):
        if name in RESERVED:
            raise DimensionError(
                f"{subject.name}: a text may not be called {name!r}, which a judge or DSPy keeps "
                "for itself; call it otherwise and map the column to it"
            )
    if not prompt.instruction.strip():
        raise DimensionError(f"{subject.name}: the instruction is empty")
    rationale = any(field.name == "rationale" for field in prompt.outputs)
    wanted = _seed_prompt(subject, rationale=rationale)
    if [_form(field) for field in prompt.fields] != [_form(field) for field in wanted.fields]:
        raise DimensionError(
            f"{subject.name}: the prompt's fields ({_names(prompt)}) are not those of what it "
            f"judges ({_names(wanted)})"
        )
    for number, demo in enumerate(prompt.demos):
        _check_demo(f"{subject.name}: demo {number}", demo, prompt)


def _check_demo(where: str, demo: Mapping[str, Value], prompt: Prompt) -> None:
    if demo.keys() != {field.name for field in prompt.fields}:
        raise DimensionError(f"{where} has {', '.join(demo)}; a demo has exactly {_names(prompt)}")
    for field in prompt.fields:
        value = demo[field.name]
        if field.choices and not any(type(value) is type(c) and value == c for c in field.choices):
            raise DimensionError(f"{where} has {field.name} {value!r}; allowed: {field.choices}")
        if not field.choices and not isinstance(value, str):
            raise DimensionError(f"{where} has {field.name} {value!r}; a text belongs there")


def _form(field: Field) -> tuple[object, ...]:
    return field.name, field.role, field.choices


def _names(prompt: Prompt) -> str:
    return ", ".join(field.name for field in prompt.fields)
