"""A judge to use: what it judges, how it asks, how replies become a score, where it came from.

`judges.load(...)` finds one; `judge(document=..., summary=...)` judges one output and
`judge.score(frame)` a whole table; `program()` gives the DSPy module that asks the same, and
`save()` freezes it in one file.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from dspy_judges.errors import OptionError
from judges.client import (
    EMBEDDED,
    BudgetSpentError,
    FatalModelError,
    Message,
    ModelOptions,
    Options,
    Session,
    endpoint_of,
    is_plain,
    read_options,
    shared_client,
)
from judges.dimension import Comparison, Subject, check_prompt, untuned_prompt
from judges.judgement import AnyJudgement
from judges.judging import (
    Asking,
    MissingColumnError,
    failed,
    find_columns,
    judge_rows,
)
from judges.prompt import Prompt, Reasoning, fill
from judges.scoring import SamplingPlan, default_plan, plan_at

if TYPE_CHECKING:
    import dspy
    import pandas as pd

    from judges.client import Client, Model
    from judges.frozen import AnyFile, JudgeFile

Kind = Literal["rating", "verdict", "pairwise"]
# Who named a judge's model: nobody, the file that it was read from, or its user.
Origin = Literal["default", "file", "user"]
RowJudge = Callable[[Iterable[Mapping[str, object]]], Iterator[AnyJudgement]]


def kind_of(subject: Subject) -> Kind:
    """What a judge of it gives: a rating, one of two words, or a choice between two outputs."""
    if isinstance(subject, Comparison):
        return "pairwise"
    return "verdict" if subject.words else "rating"


class FailedJudgementWarning(UserWarning):
    """Some rows of a table got no score."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A judge of ratings, of two words or of pairs, ready to run.

    `plan` None leaves the way to a score to the model, as catalogue judges do. `lm` is the model it
    asks, and `api_base` the endpoint, which only its user names. Where nobody named a model, the LM
    that DSPy is configured with is asked, if it is. `stored_messages` are its file's, where its
    program would render others: they are sent as they stand. Of two values, what the model
    gives `threshold` or more is a pass: scores are moved so that a pass has .5 or more.
    """

    subject: Subject
    prompt: Prompt
    plan: SamplingPlan | None = None
    lm: str = EMBEDDED
    provenance: Mapping[str, object] | None = None
    threshold: float = 0.5
    api_base: str | None = field(default=None, compare=False, repr=False)
    lm_from: Origin = field(default="default", compare=False, repr=False)
    stored_messages: tuple[Message, ...] | None = None

    def __post_init__(self) -> None:
        check_prompt(self.subject, self.prompt)
        object.__setattr__(self, "prompt", self.prompt.normalised())

    def __repr__(self) -> str:
        """On one line: a prompt with demos holds whole documents."""
        plan = self.plan.kind if self.plan else "the model's own"
        return (
            f"Judge({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, "
            f"{len(self.prompt.demos)} demos, lm {self.lm!r}, plan {plan})"
        )

    @classmethod
    def of(
        cls, subject: Subject, *, reasoning: Reasoning | None = None, lm: str = EMBEDDED
    ) -> "Judge":
        """The untuned judge of a dimension or comparison (see `untuned_prompt`)."""
        return cls(subject=subject, prompt=untuned_prompt(subject, reasoning), lm=lm)

    @classmethod
    def from_program(cls, program: "dspy.Module", subject: Subject) -> "Judge":
        """Read instructions and demos off a DSPy module with one predictor (see `program`)."""
        from judges.modules import prompt_of

        predictors = program.predictors()
        if len(predictors) != 1:
            raise OptionError(f"a judge has one predictor; this program has {len(predictors)}")
        return cls(subject=subject, prompt=prompt_of(predictors[0].signature, predictors[0].demos))

    @property
    def name(self) -> str:
        return self.subject.name

    @property
    def kind(self) -> Kind:
        return kind_of(self.subject)

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of the texts it reads, in the order shown."""
        return self.subject.texts

    @property
    def parts(self) -> tuple["Judge", ...]:
        """The judges that ask a model, each its own: itself, or a panel's members."""
        return (self,)

    def clients(self, client: "Client") -> tuple["Client", ...]:
        """What asks the models of its parts, on the budget of `client`, which asks the first."""
        return (client,)

    @property
    def is_frozen(self) -> bool:
        """Whether it asks as it was tuned: it has a plan of its own."""
        return self.plan is not None

    @property
    def constructed(self) -> bool:
        """Whether it was tuned on constructed labels, which no person gave."""
        provenance: Mapping[str, Any] = self.provenance or {}
        is_tuned = provenance.get("shipped") != "seed"
        return is_tuned and bool((provenance.get("data") or {}).get("constructed"))

    def check_origins(self) -> None:
        """Raise FatalModelError where a file alone, maybe a stranger's, makes a dangerous choice.

        That is a model that may be an address, a path or a program, and the public endpoint in the
        place of the private one that it was made at.
        """
        for judge in self.parts:
            if judge.lm_from != "file":
                continue
            if not is_plain(judge.lm):
                raise FatalModelError(
                    f"{judge.name}: its file names the model {judge.lm[:200]!r}, which is no plain "
                    "PROVIDER/NAME of a known provider; to ask it, name it yourself: --lm MODEL "
                    "(lm=...)"
                )
            made_at = (judge.provenance or {}).get("endpoint")
            if made_at and not judge.api_base and made_at != (asked_at := endpoint_of(judge.lm)):
                raise FatalModelError(
                    f"{judge.name}: it was made at {str(made_at)[:200]!r}, and {asked_at} would be "
                    "asked; say where: --api-base URL (api_base=...)"
                )

    def plan_for(self, model: "Model") -> SamplingPlan:
        """Its own plan, or the model's default where it has none."""
        return self.plan or default_plan(model)

    def resolved_plan(self) -> SamplingPlan:
        """The plan it follows with its own model."""
        # By its model's name alone: what is only saved needs no key.
        return self.plan or plan_at(endpoint_of(self.lm, self.api_base))

    def __call__(self, **texts: str) -> AnyJudgement:
        """Judge one output, or one pair in both orders; a failed judgement says why."""
        if texts.keys() != set(self.subject.texts):
            given, names = ", ".join(texts) or "nothing", ", ".join(self.texts)
            raise TypeError(f"the judge {self.name!r} reads {names}; given: {given}")
        with self.open_client() as client:
            (judgement,) = self.judge_rows([texts], client)
        return judgement

    @contextmanager
    def open_client(
        self, *, keep_going: bool = True, **options: Unpack[ModelOptions]
    ) -> Iterator["Client"]:
        """Open what asks its model; without options it is the process's own, which stays open."""
        self.check_origins()
        opening: Any = {"lm": self.lm, "api_base": self.api_base}
        is_named = self.lm_from != "default" or self.lm != EMBEDDED or self.api_base
        if not is_named and self.provenance is None and "dspy" in sys.modules:
            from judges.client.dspy import DspyModel, configured_lm

            if (configured := configured_lm()) is not None:
                model = DspyModel(configured)
                opening = {"lm": model.name, "models": {model.name: model}}
        if keep_going and not options and "models" not in opening:
            yield shared_client(self.lm, self.api_base)
            return
        with Session(keep_going=keep_going, **opening, **options) as session:
            yield session.client(opening["lm"])

    def judge_rows(
        self, rows: Iterable[Mapping[str, object]], client: "Client", *, seed: int = 0
    ) -> Generator[AnyJudgement, None, None]:
        """Judge a stream of rows in their order; a row that lacks a text fails and is not sent."""
        self.check_origins()
        plan = self.plan_for(client.model)
        asking = Asking(
            self.subject, self.prompt, plan, self.template(), client, seed, self.threshold
        )
        return judge_rows(asking, rows)

    @contextmanager
    def open(self, **options: Unpack[Options]) -> Iterator[RowJudge]:
        """Open its model once for many calls, with options as for `score`.

        Yields a function from rows to their judgements, for any thread. Rows that the budget has no
        room for are failed judgements that say so.
        """
        values, mapping = read_options(options)
        columns = {name: mapping.get(name, name) for name in self.texts}
        judge = self.with_model(values.pop("lm", None), values.pop("api_base", None))
        seed = values.pop("seed", 0)

        def judged(rows: Iterable[Mapping[str, object]]) -> Iterator[AnyJudgement]:
            texts, remaining = tee(
                {name: row.get(column) for name, column in columns.items()} for row in rows
            )
            try:
                for judgement in judge.judge_rows(texts, client, seed=seed):
                    next(remaining)
                    yield judgement
            except BudgetSpentError as error:
                for _ in remaining:
                    yield failed(self.subject, f"not asked: {error}")

        with judge.open_client(**values) as client:
            yield judged

    def judge_all(
        self, rows: Iterable[Mapping[str, object]], **options: Unpack[Options]
    ) -> Iterator[AnyJudgement]:
        """Judge a stream of rows with options as for `score`, rationales and all."""
        with self.open(**options) as judge_rows:
            yield from judge_rows(rows)

    def score(self, frame: "pd.DataFrame", **options: Unpack[Options]) -> "pd.Series[float]":
        """Score every row of a DataFrame; the Series has the frame's index, failures are NaN.

        Conversations are read as `dspy-judges score` reads them. A pairwise judge gives its margin
        in [-1, 1], positive for A. `attrs["n_failed"]` counts failures and `attrs["failures"]` each
        reason.
        """
        import pandas as pd

        values, mapping = read_options(options)
        if not isinstance(frame, pd.DataFrame):
            raise TypeError(
                f"score() takes a DataFrame, not {type(frame).__name__}; judge_all() takes rows"
            )
        from judges.labels.conversations import as_texts

        names, records = [*map(str, frame.columns)], frame.itertuples(index=False, name=None)
        rows = [as_texts(dict(zip(names, record, strict=True))) for record in records]
        columns = self.find_columns({*names, *chain.from_iterable(rows)}, mapping)
        if double := [name for name in columns.values() if names.count(name) > 1]:
            raise MissingColumnError(f"two columns are called {double[0]!r}; rename one")
        scores, reasons = [], Counter[str]()
        for result in self.judge_all(rows, **values, map=columns):
            scores.append(result.score)
            if result.failure is not None:
                reasons[result.failure] += 1
        series = pd.Series(scores, index=frame.index, name=self.name, dtype="float64")
        series.attrs.update(n_failed=reasons.total(), failures=dict(reasons.most_common(100)))
        if reasons:
            (reason, count), n = reasons.most_common(1)[0], reasons.total()
            message = f"{n} of {len(frame)} judgements failed; {count} of them: {reason}"
            warnings.warn(f"{self.name}: {message}", FailedJudgementWarning, stacklevel=2)
        return series

    def template(self) -> list[Message]:
        """The messages that it sends, with `{{name}}` slots for texts in the last one."""
        return list(self._template)

    @cached_property
    def _template(self) -> Sequence[Message]:
        return self.stored_messages or self.prompt.template()

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """What it sends for one output; KeyError names a text that is missing."""
        return fill(self.template(), texts)

    def program(self) -> "dspy.Module":
        """A DSPy module that sends the same messages: compose it, or optimize it further.

        It asks the LM that DSPy is configured with, else the judge's own model, for one reply: of a
        verdict the word, which no threshold moves. Raises OptionError where its file's messages are
        not those that its program renders.
        """
        if self.stored_messages is not None:
            raise OptionError(
                f"{self.name}: its messages are its file's own, and a DSPy program would send "
                "others; use the judge as it is, or tune it again"
            )
        from judges.client.dspy import as_lm
        from judges.modules import PairwiseJudge, RatingJudge, VerdictJudge, demos_of

        kinds = {"rating": RatingJudge, "verdict": VerdictJudge, "pairwise": PairwiseJudge}

        def own_lm() -> Any:
            with self.open_client() as client:
                return as_lm(client)

        module: Any = kinds[self.kind](self.subject, prompt=self.prompt, own_lm=own_lm)
        module.judge.demos = demos_of(self.prompt)
        return module

    def find_columns(
        self, available: Collection[str], mapping: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """What it reads of a row -> column (see `judging.find_columns`); MissingColumnError."""
        return find_columns(self.subject, available, mapping)

    def with_model(self, lm: str | None = None, api_base: str | None = None) -> "Judge":
        """The same judge with the model that its user names, or the endpoint."""
        if api_base is not None and not api_base.strip():
            raise OptionError("api_base is empty: give an address, or leave it out")
        judge = self if lm is None else replace(self, lm=lm, lm_from="user")
        return judge if api_base is None else replace(judge, api_base=api_base)

    def with_plan(self, plan: SamplingPlan | None) -> "Judge":
        """The same judge with another way from replies to a score."""
        return replace(self, plan=plan)

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Freeze into one JSON file, atomically; FileExistsError unless `overwrite`."""
        from judges.tables.atomic_write import write_atomically  # which judging does without

        write_atomically(Path(path), self.dumps().encode("utf-8"), overwrite=overwrite)
        return Path(path)

    def dumps(self) -> str:
        """The text that `save` writes."""
        from judges import frozen

        return frozen.dumps(self.freeze())

    def freeze(self) -> "AnyFile":
        """What its file holds."""
        from msgspec import UNSET

        from judges.frozen import JudgeFile, shared_entries

        return JudgeFile(
            **shared_entries(self.subject, self.provenance),
            messages=self.template(),
            program=self.prompt,
            sampling=self.resolved_plan(),
            lm=self.lm,
            threshold=UNSET if self.threshold == 0.5 else self.threshold,
        )

    @classmethod
    def of_file(cls, file: "JudgeFile") -> "Judge":
        """The judge that a checked file holds."""
        return cls(
            subject=file.subject.read(),
            prompt=file.program,
            plan=file.sampling,
            lm=file.lm,
            provenance=file.provenance,
            threshold=file.threshold or 0.5,
            lm_from="file",
            stored_messages=(
                None if file.messages == file.program.template() else tuple(file.messages)
            ),
        )
