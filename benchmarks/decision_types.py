"""Requests and replies of decision models, checked by the vendors' own types and beside DSPy's.

    python benchmarks/decision_types.py

It needs openai 3.54 and typesafe-sdk 0.7.5 beside DSPy. Judges of every kind ask the local server
in both forms. Requests are validated by the vendors' parameter types, with unknown keys forbidden,
and replies by their response types. `dspy.experimental.TypeSafe` then asks the same questions of
the same texts, and both requests are compared as JSON.
"""

import argparse
import importlib
import json
import os
import pkgutil
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).parents[1] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))
WANTED = {"openai": "3.54", "typesafe-sdk": "0.7.5"}


def missing() -> str | None:
    """Why nothing can be checked here; None if it can."""
    for package, least in WANTED.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "not installed"
        if not found.startswith(least):
            return f"skipped: {package} {least} is needed and it is {found}"
    return None


def cases() -> dict[str, tuple[Any, dict[str, str]]]:
    """A judge of each kind, and texts for it."""
    from prompts import prompted
    from question_cases import BRIEFER, DEADLINE, HELPFUL, KINDER, PAIR, ROW, TONE

    from judges import Judge

    rating = Judge.of(HELPFUL, questions=[DEADLINE, TONE])
    passes = replace(
        HELPFUL, anchors={0: "does not help", 1: "helps"}, words=("pass", "fail"), questions=()
    )
    demo = {**ROW, "deadline": "yes", "tone": 2, "rating": 4}
    return {
        "rating, two questions": (rating, ROW),
        "rating, a demonstration": (prompted(rating, demos=[demo]), ROW),
        "verdict": (Judge.of(passes), ROW),
        "pair, a question": (Judge.of(KINDER, reasoning="none", questions=[BRIEFER]), PAIR),
    }


def be_strict() -> None:
    """Have pydantic check openai's types of decisions as a whole, with unknown keys forbidden."""
    import openai.types
    from openai.types import shared_params
    from typing_extensions import is_typeddict

    for package in (openai.types, shared_params):
        for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if ".decision" in each.name:
                module: Any = importlib.import_module(each.name)
                module.Iterable = list  # pydantic checks an Iterable only once it is read
                for value in vars(module).values():
                    if is_typeddict(value):
                        value.__pydantic_config__ = {"extra": "forbid"}


def checks() -> dict[str, tuple[Any, Any]]:
    """The checks of a request and of a reply in each form."""
    from openai.types.decision import Decision
    from openai.types.decision_create_params import DecisionCreateParams
    from pydantic import ConfigDict, TypeAdapter, create_model
    from typesafe_sdk import Choice, Noul, Score
    from typesafe_sdk._schemas.models import SystemOneRequest, SystemOneResponse

    be_strict()
    decisions = TypeAdapter(DecisionCreateParams)
    request = create_model(
        "Request",
        __config__=ConfigDict(extra="forbid"),
        model=str,
        state=dict[str, Any],
        questions=dict[str, Noul | Score | Choice],
    )

    def system_one(body: Any) -> None:
        SystemOneRequest.model_validate(body)
        request.model_validate(body)

    return {
        "decisions": (decisions.validate_python, Decision),
        "systemone": (system_one, SystemOneResponse),
    }


def dspy_signature(judge: Any) -> Any:
    """The signature that a user of DSPy would write for the judge."""
    import dspy
    from dspy.experimental import Choice, Noul, Score

    from judges.decisions import typed_question

    fields: dict[str, Any] = {
        field.name: (str, dspy.InputField(desc=field.description)) for field in judge.prompt.inputs
    }
    for field in judge.prompt.choices:
        asked = typed_question(field)
        criteria = asked.criteria or {}
        if isinstance(criteria, list):
            answer: Any = Score[tuple(criteria)]
        elif asked.type == "noul":
            answer = Noul[(True, criteria["true"]), (False, criteria["false"])]
        else:
            answer = Choice[tuple((option, "") for option in criteria)]
        fields[field.name] = (answer, dspy.OutputField(desc=asked.instructions))
    return dspy.Signature(fields, judge.prompt.instruction)


def asked_by_dspy(judge: Any, texts: dict[str, str], url: str) -> None:
    import dspy

    predict = dspy.Predict(dspy_signature(judge))
    predict.demos = [dspy.Example(**demo) for demo in judge.prompt.demos]
    lm = dspy.experimental.TypeSafe(
        "judge-1",
        api_key=os.environ["SYSTEMONE_API_KEY"],
        base_url=url.removesuffix("/v1"),
        cache=False,
    )
    with dspy.context(lm=lm):
        predict(**texts)


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two JSON values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            each
            for key in ours.keys() | theirs.keys()
            for each in differences(ours.get(key), theirs.get(key), f"{path}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [each for n, pair in pairs for each in differences(*pair, f"{path}[{n}]")]
    return [] if ours == theirs else [f"{path}: {ours!r}, DSPy {theirs!r}"]


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    if reason := missing():
        print(reason)
        return
    from decision_server import DecisionServer
    from openai_server import Serving

    replies: list[Any] = []

    class Recording(DecisionServer):
        def _completion(self, body: Any, texts: Any) -> Any:
            replies.append(super()._completion(body, texts))
            return replies[-1]

    os.environ["SYSTEMONE_API_KEY"] = os.environ["OPENAI_API_KEY"] = "sk-local-benchmark-key"
    with Serving(Recording()) as server:
        for form, (check_request, reply_type) in checks().items():
            begin = len(server.log)
            for judge, texts in cases().values():
                (said,) = judge.judge_all(
                    [texts], lm=f"{form}/judge-1", api_base=server.url, cache="none"
                )
                assert said.failure is None, said
            for seen in server.log[begin:]:
                check_request(seen.body)
            for reply in replies[begin:]:
                reply_type.model_validate_json(json.dumps(reply), strict=True)
            n = len(server.log) - begin
            print(
                f"{form}: {n} requests and {len(replies) - begin} replies are of the vendor's types"
            )
        print("beside dspy.experimental.TypeSafe, the same state and questions:")
        for name, (judge, texts) in cases().items():
            begin = len(server.log)
            list(
                judge.judge_all([texts], lm="systemone/judge-1", api_base=server.url, cache="none")
            )
            ours = server.log[begin].body
            asked_by_dspy(judge, texts, server.url)
            print(
                f"  {name}: {'; '.join(differences(ours, server.log[-1].body)) or 'no difference'}"
            )
        assert not server.invalid, server.invalid


if __name__ == "__main__":
    main()
