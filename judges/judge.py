"""A judge to use: what it judges, how it asks, how replies become a score, where it came from.

`judges.load(...)` finds one; `judge(document=..., summary=...)` judges one output and
`judge.score(frame)` a whole table; `program()` gives the DSPy module that asks the same, and
`save()` freezes it in one file.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from dspy_judges.errors import OptionError
from judges.client import (
    EMBEDDED,
    Message,
    ModelOptions,
    Options,
    check_options,
    endpoint_of,
    open_client,
    pop_map,
)
from judges.dimension import (
    Comparison,
    Subject,
    check_prompt,
    seed_prompt,
)
from judges.judgement import AnyJudgement
from judges.judging import (
    MissingColumnError,
    Order,
    failed,
    find_columns,
    judge_rows,
    rows_of,
)
from judges.prompt import Prompt, Reasoning, fill
from judges.scoring import SamplingPlan, default_plan, plan_at

if TYPE_CHECKING:
    import dspy
    import pandas as pd

    from judges.client import Client, Model
    from judges.frozen import AnyFile, JudgeFile

Kind = Literal["rating", "pairwise"]
T = TypeVar("T")
RowJudge = Callable[[Iterable[Mapping[str, object]]], Iterator[AnyJudgement]]


class FailedJudgementWarning(UserWarning):
    """Some rows of a table got no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A rating judge or a pairwise judge, ready to run.

    `plan` None leaves the way to a score to the model (`scoring.default_plan`), as catalogue
    judges do; a frozen judge has its own. `lm` is the model it asks unless another is named, and
    `api_base` the endpoint, which only its user names. `from_file`: a file named `lm`, so that it
    is asked only where it is a known provider's plain model (see `model_to_ask`). Where nobody has
    named a model (`lm_named`), the LM that DSPy is configured with is asked, if it is.
    `stored_messages` are its file's, where this release would render its prompt otherwise: they
    are sent as they stand.
    """

    subject: Subject
    prompt: Prompt
    plan: SamplingPlan | None = None
    lm: str = "embedded"
    provenance: Mapping[str, object] | None = None
    api_base: str | None = field(default=None, compare=False, repr=False)
    from_file: bool = field(default=False, compare=False, repr=False)
    lm_named: bool = field(default=False, compare=False, repr=False)
    stored_messages: tuple[Message, ...] | None = None

    def __post_init__(self) -> None:
        check_prompt(self.subject, self.prompt)
        object.__setattr__(self, "prompt", self.prompt.normalised())

    def __repr__(self) -> str:
        """On one line: a prompt with demos holds whole documents."""
        sampling = f"plan {self.plan.kind}" if self.plan else "the model's own plan"
        origin = "frozen after tuning" if self.provenance else "not tuned"
        return (
            f"Judge({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, "
            f"{len(self.prompt.demos)} demos, lm {self.lm!r}, {sampling}, {origin})"
        )

    @classmethod
    def of(
        cls, subject: Subject, *, reasoning: Reasoning | None = None, lm: str = "embedded"
    ) -> "Judge":
        """The untuned judge of a dimension or comparison (see `seed_prompt`)."""
        return cls(subject=subject, prompt=seed_prompt(subject, reasoning), lm=lm)

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
        from judges.modules import prompt_of

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
        source = (self.provenance or {}).get("data")
        if not isinstance(source, Mapping) or (self.provenance or {}).get("shipped") == "seed":
            return False
        return bool(source.get("constructed"))

    @property
    def endpoint(self) -> str | None:
        """Where the model of its run answered; nothing is sent there until its user says so."""
        recorded = (self.provenance or {}).get("endpoint")
        return recorded if isinstance(recorded, str) else None

    def model_to_ask(
        self, lm: str | None = None, api_base: str | None = None
    ) -> tuple[str, str | None]:
        """The model and the endpoint to ask: those that its user names, else its own model.

        Raises FatalModelError where only its file names what may be a stranger's choice (a model
        that is no known provider's), and where its run had another endpoint than the one to ask.
        """
        from judges.client import FatalModelError
        from judges.client.open import check_endpoint, check_name, check_plain

        model, base = lm or self.lm, api_base or self.api_base
        check_name(model)
        try:
            if self.from_file and lm is None:
                check_plain(self.lm)
            provider = self.lm.partition("/")[0]
            if self.endpoint and model.partition("/")[0] == provider and "/" in model:
                check_endpoint(model, self.endpoint, base)
        except FatalModelError as error:
            raise FatalModelError(f"{self.name}: {error}") from None
        return model, base

    def plan_for(self, model: "Model") -> SamplingPlan:
        """Its own plan, or the model's default where it has none."""
        return self.plan or default_plan(model)

    def resolved_plan(self) -> SamplingPlan:
        """The plan it follows with its own model."""
        if self.plan is not None:
            return self.plan
        # By its name alone: what is only saved needs no key.
        return plan_at(endpoint_of(self.lm, self.api_base))

    def __call__(self, **texts: str) -> AnyJudgement:
        """Judge one output, or one pair in both orders; a failed judgement says why."""
        unknown = texts.keys() - set(self.texts)
        missing = [name for name in self.texts if name not in texts]
        if unknown or missing:
            raise TypeError(
                f"the judge {self.name!r} reads {', '.join(self.texts)}"
                + (f"; not given: {', '.join(missing)}" if missing else "")
                + (f"; not known: {', '.join(sorted(unknown))}" if unknown else "")
            )
        with self.open_client() as client:
            (result,) = self.judge_rows([texts], client)
        return result

    @contextmanager
    def open_client(
        self, *, keep_going: bool = True, **options: Unpack[ModelOptions]
    ) -> Iterator["Client"]:
        """Open what asks its model, or the one that the options name (see `model_to_ask`)."""
        lm, api_base = self.model_to_ask(options.get("lm"), options.get("api_base"))
        opening: Any = {**options, "lm": lm, "api_base": api_base}
        if self.names_no_model(options.get("lm"), options.get("api_base")):
            from judges.client.dspy import ConfiguredModel, configured_lm

            if (configured := configured_lm()) is not None:
                model = ConfiguredModel(configured)
                opening |= {"lm": model.name, "models": {model.name: model}}
        with open_client(keep_going=keep_going, **opening) as client:
            yield client

    def names_no_model(self, lm: str | None = None, api_base: str | None = None) -> bool:
        """Whether neither the judge nor these arguments name a model or an endpoint."""
        named = lm or api_base or self.api_base or self.lm_named or self.from_file
        return not named and self.plan is None and self.lm == EMBEDDED

    def judge_rows(
        self,
        rows: Iterable[Mapping[str, object]],
        client: "Client",
        *,
        order: Order = "both",
        seed: int = 0,
    ) -> Generator[AnyJudgement, None, None]:
        """Judge a stream of rows in their order; a row that lacks a text fails and is not sent."""
        template, plan = self.template(), self.plan_for(client.model)
        return judge_rows(
            self.subject, self.prompt, plan, rows, client, template=template, order=order, seed=seed
        )

    @contextmanager
    def open(self, **options: Unpack[Options]) -> Iterator[RowJudge]:
        """Open its model once for many calls, with options as for `score`.

        Yields a function from rows to their judgements, which any thread may call; one budget holds
        for all calls, and BudgetSpentError says that it has ended.
        """
        values: dict[str, Any] = {**options}
        check_options(values)
        mapping = pop_map(values)
        columns = {name: mapping.get(name, name) for name in self.texts}
        opening: Any = {
            name: values[name] for name in ModelOptions.__annotations__ if name in values
        }
        draws: Any = {name: values[name] for name in ("order", "seed") if name in values}
        with self.open_client(**opening) as client:
            yield lambda rows: self.judge_rows(
                ({name: row.get(column) for name, column in columns.items()} for row in rows),
                client,
                **draws,
            )

    def judge_all(
        self, rows: Iterable[Mapping[str, object]], **options: Unpack[Options]
    ) -> Iterator[AnyJudgement]:
        """Judge a stream of rows with options as for `score`, rationales and all.

        Where the budget ends, the rows left are failed judgements that say so: nothing that was
        paid for is lost.
        """
        from judges.client import BudgetSpentError

        source, n_read, n_judged, reason = iter(rows), 0, 0, ""

        def counted() -> Iterator[Mapping[str, object]]:
            nonlocal n_read
            for row in source:
                n_read += 1
                yield row

        with self.open(**options) as judge_rows:
            try:
                for result in judge_rows(counted()):
                    n_judged += 1
                    yield result
            except BudgetSpentError as error:
                reason = f"not asked: {error}"
        for _ in range(n_judged, n_read):
            yield failed(self.subject, reason)
        for _ in source:
            yield failed(self.subject, reason)

    def score(self, frame: "pd.DataFrame", **options: Unpack[Options]) -> "pd.Series[float]":
        """Score every row of a DataFrame; the Series has the frame's index, failures are NaN.

        A pairwise judge gives its margin in [-1, 1], positive for A. `attrs["n_failed"]` counts
        failures and `attrs["failures"]` counts each reason.
        """
        import pandas as pd

        from judges.terminal import Progress

        check_options(options)
        if not isinstance(frame, pd.DataFrame):
            raise TypeError(
                f"score() takes a DataFrame, not {type(frame).__name__}; judge_all() takes rows"
            )
        mapping = pop_map(options)
        progress = options.pop("progress", False)
        columns = self.find_columns([str(name) for name in frame.columns], mapping)
        for column in columns.values():
            if list(frame.columns).count(column) > 1:
                raise MissingColumnError(f"two columns are called {column!r}; rename one")
        texts = {name: frame[column] for name, column in columns.items()}
        scores, reasons = [], Counter[str]()
        with Progress(self.name, len(frame), sys.stderr) if progress else nullcontext() as bar:
            for result in self.judge_all(rows_of(texts), **options):
                scores.append(result.score)
                if result.failure is not None:
                    reasons[result.failure] += 1
                if bar:
                    bar.step(failed=result.failure is not None)
        series = pd.Series(scores, index=frame.index, name=self.name, dtype="float64")
        series.attrs.update(n_failed=reasons.total(), failures=dict(reasons.most_common(100)))
        if reasons:
            reason, count = reasons.most_common(1)[0]
            warnings.warn(
                f"{self.name}: {reasons.total()} of {len(frame)} judgements failed; {count} of "
                f"them: {reason}",
                FailedJudgementWarning,
                stacklevel=2,
            )
        return series

    def template(self) -> list[Message]:
        """The messages that it sends, with `{{name}}` slots for texts in the last one."""
        if self.stored_messages is None:
            return self.prompt.template()
        return [Message(role=m["role"], content=m["content"]) for m in self.stored_messages]

    def messages(self, texts: Mapping[str, str]) -> list[Message]:
        """What it sends for one output; KeyError names a text that is missing."""
        return fill(self.template(), texts)

    def program(self) -> "dspy.Module":
        """A DSPy module that sends the same messages: compose it, or optimize it further.

        It asks the LM that DSPy is configured with, else the judge's own model. Raises OptionError
        where its file's messages are not those that this release renders.
        """
        if self.stored_messages is not None:
            raise OptionError(
                f"{self.name}: its messages were rendered by another release, and a DSPy program "
                "would send others; use the judge as it is, or tune it again"
            )
        from judges.client.dspy import open_lm
        from judges.modules import PairwiseJudge, RatingJudge, demos_of

        kind: Any = PairwiseJudge if isinstance(self.subject, Comparison) else RatingJudge
        own_lm = partial(open_lm, self.open_client)
        module = kind(self.subject, prompt=self.prompt, own_lm=own_lm)
        module.judge.demos = demos_of(self.prompt)
        return module

    def find_columns(
        self, available: Collection[str], mapping: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """What it reads of a row -> column (see `judging.find_columns`); MissingColumnError."""
        return find_columns(self.subject, available, mapping)

    def with_model(self, lm: str | None = None, api_base: str | None = None) -> "Judge":
        """The same judge with the model that its user names, or the endpoint."""
        judge = self
        if lm is not None:
            judge = replace(self, lm=lm, from_file=False, lm_named=True)
        return judge if api_base is None else replace(judge, api_base=api_base)

    def with_plan(self, plan: SamplingPlan | None) -> "Judge":
        """The same judge with another way from replies to a score."""
        return replace(self, plan=plan)

    def with_prompt(self, *, instruction: str | None = None, demos: Any = None) -> "Judge":
        """The same judge with another instruction or other demos, rendered as of this release."""
        prompt = replace(
            self.prompt,
            instruction=self.prompt.instruction if instruction is None else instruction,
            demos=self.prompt.demos if demos is None else tuple(demos),
        )
        return replace(self, prompt=prompt, stored_messages=None)

    def save(self, path: Path | str, *, overwrite: bool = False) -> Path:
        """Freeze into one JSON file, atomically; FileExistsError unless `overwrite`."""
        from judges import frozen

        return frozen.save(self.freeze(), path, overwrite=overwrite)

    def dumps(self) -> str:
        """The text that `save` writes."""
        from judges import frozen

        return frozen.dumps(self.freeze())

    @classmethod
    def load(cls, path: Path | str) -> "Judge":
        """Read a frozen judge's file; raises FrozenJudgeError, or OSError."""
        from judges import frozen

        return cls._from_any(frozen.load(path), f"{path}: ")

    @classmethod
    def loads(cls, raw: bytes) -> "Judge":
        """Read the bytes of a frozen judge's file; raises FrozenJudgeError."""
        from judges import frozen

        return cls._from_any(frozen.loads(raw))

    def freeze(self) -> "AnyFile":
        """What its file holds."""
        from judges import frozen

        provenance = self.provenance
        if self.api_base is not None and self.endpoint is None:
            # The endpoint that its user named, where no run recorded any.
            provenance = {**(provenance or {}), "endpoint": endpoint_of(self.lm, self.api_base)}
        return frozen.freeze(
            self.subject,
            self.prompt,
            self.template(),
            self.resolved_plan(),
            lm=self.lm,
            provenance=provenance,
        )

    @classmethod
    def _from_any(cls, file: "AnyFile", where: str = "") -> "Judge":
        from judges.frozen import FrozenJudgeError, PanelFile

        if isinstance(file, PanelFile):
            raise FrozenJudgeError(f"{where}a panel of several judges; judges.load(FILE) opens it")
        return cls.of_file(file)

    @classmethod
    def of_file(cls, file: "JudgeFile") -> "Judge":
        """The judge that a checked file holds."""
        prompt, messages = file.read_prompt(), file.messages
        return cls(
            subject=file.subject.read(),
            prompt=prompt,
            plan=file.read_plan(),
            lm=file.lm,
            provenance=file.provenance,
            from_file=True,
            stored_messages=None if messages == prompt.template() else tuple(messages),
        )
