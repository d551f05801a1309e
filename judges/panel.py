"""Several judges joined in one: each asks its own model.

A panel's score is the weighted mean of its members' scores, each put on a common scale by a
straight line of its own. Members, lines and weights are learned elsewhere (dspy-judges panel).
"""

import math
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, NoReturn, cast

from dspy_judges.errors import JudgesError
from judges.client import EMBEDDED, BudgetSpentError, is_embedded
from judges.dimension import Comparison, Dimension, Subject, untuned_prompt
from judges.frozen import MAX_MEMBERS, JudgeFile, PanelFile, PanelMember, shared_entries
from judges.judge import Judge
from judges.judgement import AnyJudgement, Judgement, Verdict
from judges.judging import Order, choice_of, failed

if TYPE_CHECKING:
    from judges.client import Client

MAX_REASON_LENGTH = 300


class PanelError(JudgesError, ValueError):
    """Judges that cannot be joined so, or something asked of a panel that a single judge does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A judge of a panel, whose weight is above 0.

    `intercept + slope * score` is its score on the panel's scale.
    """

    name: str
    weight: float
    judge: Judge
    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel(Judge):
    """A judge whose score is the weighted mean of its members' mapped scores; make one by `join`.

    Of pairs, margins are joined, in each order and over both. Where a member gives no score, the
    panel's judgement has failed and names the member. `lm` is the first model that is not embedded;
    `prompt` is no model's, and `template()` refuses.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        Judge.__post_init__(self)
        _check(self)

    @classmethod
    def join(
        cls,
        subject: Subject,
        members: Sequence[Member],
        *,
        provenance: Mapping[str, object] | None = None,
    ) -> "Panel":
        """A panel on this subject, which reads whatever its members read.

        Raises PanelError for judges that cannot be joined: one of pairs and one of outputs, one
        of another dimension on another scale, a panel, two of a name.
        """
        judges = [member.judge for member in members]
        more_inputs = {
            name: text
            for judge in judges
            for name, text in judge.subject.inputs.items()
            if name not in subject.inputs
        }
        subject = replace(subject, inputs={**more_inputs, **subject.inputs})
        checked = [
            replace(member, judge=_check_judge(subject, member.name, member.judge))
            for member in members
        ]
        paid_models = [judge.lm for judge in judges if not is_embedded(judge.lm)]
        return cls(
            subject=subject,
            prompt=untuned_prompt(subject),
            lm=next(iter(paid_models), EMBEDDED),
            lm_from="user",
            members=tuple(checked),
            provenance=provenance,
        )

    def __repr__(self) -> str:
        """On one line: the members with their weights."""
        members = ", ".join(f"{member.name} {member.weight:.3g}" for member in self.members)
        return f"Panel({self.name!r}, {self.kind}, reads {', '.join(self.texts)}, of {members})"

    @property
    def is_frozen(self) -> bool:
        """Its members ask as they did when it was joined."""
        return True

    @property
    def parts(self) -> tuple[Judge, ...]:
        return tuple(member.judge for member in self.members)

    def with_model(self, lm: str | None = None, api_base: str | None = None) -> "Panel":
        """The panel with what its user lets it ask, at an endpoint that its user names.

        Every member asks its own model, on which its weight was learned. So `lm` may only name,
        separated by commas, members' models that their files alone may not choose. `api_base` is
        for the members of OpenAI's protocol.
        """
        named = lm.split(",") if lm else []
        models = list(dict.fromkeys(judge.lm for judge in self.parts))
        if unknown := [name for name in named if name not in models]:
            raise PanelError(
                f"{self.name} is a panel, whose members ask {', '.join(models)}: its "
                f"weights hold for these alone, so it cannot ask {unknown[0]}; leave the model out"
            )

        def base_of(judge: Judge) -> str | None:
            return api_base if judge.lm.startswith("openai/") else None

        members = [
            replace(
                member,
                judge=member.judge.with_model(
                    member.judge.lm if member.judge.lm in named else None, base_of(member.judge)
                ),
            )
            for member in self.members
        ]
        base = base_of(self) or self.api_base
        return replace(self, members=tuple(members), api_base=base)

    def judge_one(self, row: Mapping[str, object], client: "Client") -> AnyJudgement:
        """Judge one row; all members are asked at once."""
        (judgement,) = self.judge_rows([row], client)
        return judgement

    def judge_rows(
        self,
        rows: Iterable[Mapping[str, object]],
        client: "Client",
        *,
        order: Order = "both",
        seed: int = 0,
    ) -> Generator[AnyJudgement, None, None]:
        """Judge a stream of rows; all members' requests are under way together."""
        rows, *copies = tee(rows, len(self.members) + 1)
        with ExitStack() as stack:
            streams = []
            for judge, copy in zip(self.parts, copies, strict=True):
                asker = self._client_of(judge, client)
                stream = judge.judge_rows(copy, asker, order=order, seed=seed)
                streams.append(stack.enter_context(closing(stream)))
            for _ in rows:
                try:
                    judgements = [next(stream) for stream in streams]
                except BudgetSpentError:
                    self._await_paid(streams)
                    raise
                yield self.joined(judgements)

    def _await_paid(self, streams: Sequence[Iterator[AnyJudgement]]) -> None:
        """Let arrive what other members have under way: it is paid for, and kept in the store."""
        for judge, stream in zip(self.parts, streams, strict=True):
            if not is_embedded(judge.lm):
                with suppress(BudgetSpentError):
                    deque(stream, maxlen=0)

    def joined(self, judgements: Sequence[AnyJudgement]) -> AnyJudgement:
        """One judgement from its members', in their order."""
        pairs = list(zip(self.members, judgements, strict=True))
        reasons = [
            f"member {member.name}: {judgement.failure or 'no score'}"
            for member, judgement in pairs
            if judgement.failure is not None or math.isnan(judgement.score)
        ]
        if reasons:
            return failed(self.subject, "; ".join(reasons)[:MAX_REASON_LENGTH])
        total = math.fsum(member.weight for member in self.members)

        def mean(scores: Iterable[float]) -> float:
            mapped = (
                member.weight * (member.intercept + member.slope * score)
                for member, score in zip(self.members, scores, strict=True)
            )
            return math.fsum(mapped) / total

        score = mean(judgement.score for judgement in judgements)
        scores = {member.name: judgement.score for member, judgement in pairs}
        by_weight = [judgement for _, judgement in sorted(pairs, key=lambda p: -p[0].weight)]
        if not isinstance(self.subject, Comparison):
            ratings = [judgement for judgement in by_weight if isinstance(judgement, Judgement)]
            return Judgement(
                score=score,
                rationale=next((r.rationale for r in ratings if r.rationale), None),
                samples=sum(judgement.samples for judgement in ratings),
                unparsable=sum(judgement.unparsable for judgement in ratings),
                members=scores,
            )
        verdicts = [judgement for judgement in by_weight if isinstance(judgement, Verdict)]
        # Undefined for an order that was not asked.
        margins = {
            order: mean(getattr(judgement, order) for judgement in judgements)
            for order in ("margin_ab", "margin_ba")
        }
        choices = {
            order: choice_of(margin) for order, margin in margins.items() if not math.isnan(margin)
        }
        return Verdict(
            margin=score,
            preferred="tie" if len(set(choices.values())) > 1 else choice_of(score) or "tie",
            order_ab=choices.get("margin_ab"),
            order_ba=choices.get("margin_ba"),
            comparison=next((v.comparison for v in verdicts if v.comparison), None),
            members=scores,
            margin_ab=margins["margin_ab"],
            margin_ba=margins["margin_ba"],
        )

    def clients(self, client: "Client") -> tuple["Client", ...]:
        return tuple(dict.fromkeys(self._client_of(judge, client) for judge in self.parts))

    def _client_of(self, judge: Judge, client: "Client") -> "Client":
        """What asks a member's model, on the budget of `client`."""
        if client.open_sibling is not None:
            return client.open_sibling(judge.lm, judge.api_base)
        if len({part.lm for part in self.parts}) > 1:
            raise PanelError(
                f"{self.name}: its members ask several models: open what asks them by "
                "panel.open_client() or a Session"
            )
        return client

    def freeze(self) -> PanelFile:
        members = [
            PanelMember(
                name=member.name,
                weight=member.weight,
                slope=member.slope,
                intercept=member.intercept,
                judge=cast(JudgeFile, member.judge.freeze()),
            )
            for member in self.members
        ]
        return PanelFile(
            **shared_entries(self.subject, self.provenance, panel=True), members=members
        )

    @classmethod
    def of_panel_file(cls, file: PanelFile) -> "Panel":
        """The panel that a checked file holds; PanelError where its members cannot be joined."""
        members = [
            Member(
                name=member.name,
                weight=member.weight,
                slope=member.slope,
                intercept=member.intercept,
                judge=Judge.of_file(member.judge),
            )
            for member in file.members
        ]
        return cls.join(file.subject.read(), members, provenance=file.provenance)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        names = ", ".join(member.name for member in self.members)
        raise PanelError(
            f"{self.name} is a panel and has no plan or prompt of its own; its members have "
            f"({names}): take one of panel.parts"
        )

    plan_for = resolved_plan = with_plan = with_prompt = template = program = _refuse


def _check_judge(subject: Subject, name: str, judge: Judge) -> Judge:
    """The judge as a member, with a plan; PanelError for a panel, or one of another kind."""
    if isinstance(judge, Panel):
        raise PanelError(f"member {name} is a panel itself; join its members instead")
    if isinstance(judge.subject, Comparison) != isinstance(subject, Comparison):
        kinds = ("compares two outputs", "rates one output")
        first, second = kinds if judge.kind == "pairwise" else kinds[::-1]
        raise PanelError(f"member {name} {first}, and the panel {subject.name} {second}")
    if isinstance(judge.subject, Comparison) and isinstance(subject, Comparison):
        if judge.subject.candidate != subject.candidate:
            raise PanelError(
                f"member {name} compares each {judge.subject.candidate}, and the panel "
                f"{subject.name} each {subject.candidate}"
            )
    elif isinstance(judge.subject, Dimension) and isinstance(subject, Dimension):
        scales = [f"{s.scale[0]} to {s.scale[-1]}" for s in (judge.subject, subject)]
        if judge.name != subject.name and judge.subject.scale != subject.scale:
            raise PanelError(
                f"member {name} rates {judge.name} from {scales[0]}, and the panel {subject.name} "
                f"from {scales[1]}: a member rates the panel's dimension, or another on its scale"
            )
    return judge if judge.plan is not None else judge.with_plan(judge.resolved_plan())


def _check(panel: Panel) -> None:
    """Raise PanelError for members that are none, too many, of one name, or of no use."""
    names = [member.name for member in panel.members]
    if not 1 <= len(names) <= MAX_MEMBERS:
        raise PanelError(f"{panel.name}: a panel has 1 to {MAX_MEMBERS} members, not {len(names)}")
    for name in names:
        if names.count(name) > 1:
            raise PanelError(f"{panel.name}: two members are called {name!r}; name one otherwise")
    for member in panel.members:
        if not 1e-100 <= member.weight <= 1e6:
            raise PanelError(
                f"member {member.name} has the weight {member.weight}; above 0 and up to 1e6 is one"
            )
        if not (0 < member.slope <= 1e9 and abs(member.intercept) <= 1e9):
            raise PanelError(
                f"member {member.name} has the slope {member.slope} and the intercept "
                f"{member.intercept}; a line rises, and both are at most 1e9"
            )
        if panel.kind == "pairwise" and (member.slope > 1 or member.intercept):
            raise PanelError(
                f"member {member.name}: margins lie within [-1, 1] and change their sign where the "
                "two outputs change places: their slope is at most 1, their intercept 0"
            )
