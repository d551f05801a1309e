"""What this project uses of DSPy beyond DSPy's documentation: a new version of DSPy fails here.

`pyproject.toml` allows one minor version of DSPy. Run these tests before it allows the next one.
"""

import asyncio

import dspy
import pytest
from dspy.adapters.decision_state import DecisionState
from dspy_engine import Engine, lm_of
from judge_cases import RELEVANCE

from judges.client.dspy import DspyModel
from judges.modules import Scoring


def test_a_copy_of_a_prediction_can_be_given_its_completions():
    """`Scoring.with_score` in judges/modules.py sets `_completions`."""
    prediction = dspy.Prediction.from_completions({"rating": [4, 2]})
    scored = Scoring(RELEVANCE.prompt().choices).with_score(prediction)
    assert scored.completions is prediction.completions
    assert (scored.score, prediction.keys()) == (4.0, ["rating"])


@pytest.mark.parametrize("is_async", [False, True])
def test_an_adapter_can_choose_its_fallback(is_async):
    """`JudgeAdapter` in judges/modules.py overrides `_make_json_adapter_fallback`."""

    class Adapter(dspy.ChatAdapter):
        def _make_json_adapter_fallback(self):
            return dspy.JSONAdapter()

    replies = iter(["I do not know.", '{"rating": "4"}'])
    predictor = dspy.Predict("text -> rating")
    with dspy.context(lm=lm_of(Engine(lambda _: next(replies))), adapter=Adapter()):
        prediction = asyncio.run(predictor.acall(text="A")) if is_async else predictor(text="A")
    assert prediction.rating == "4"


def test_an_adapters_request_is_recorded_by_its_lm_alone():
    """`DspyModel._ask` in judges/client/dspy.py replaces `update_history` of a copy of the LM."""
    lm = lm_of(Engine(lambda _: "4"))
    messages = [{"role": "user", "content": "Rate."}]
    record = asyncio.run(DspyModel(lm)._ask({"model": "local/m", "messages": messages}))
    assert record["outputs"][0] in ("4", {"text": "4"})
    assert record["usage"]["total_tokens"] == 2
    assert record["response"].finish_reason == "stop"
    assert lm.history == []


def test_a_module_says_whether_it_is_compiled():
    """`_only_predictor` in optimize/tuning/program.py reads `_compiled`; users set it."""
    program = dspy.Module()
    program.rate, program.explain = dspy.Predict("text -> rating"), dspy.ChainOfThought("a -> b")
    assert [program.rate._compiled, program.explain._compiled] == [False, False]
    assert len(program.named_predictors()) == 2
    program.explain._compiled = True
    assert dict(program.named_predictors()) == {"rate": program.rate}


def test_an_output_that_cannot_be_asked_for_is_a_value_error():
    """`UserProgram.check_decisions` in optimize/tuning/program.py calls `_question`."""
    signature = dspy.Signature("text -> good: bool")
    state = DecisionState(signature, {}, system_one=True)
    with pytest.raises(ValueError, match=r"requires an OutputField\(desc"):
        state._question("good", signature.output_fields["good"], state.types["good"])
    described = signature.with_updated_fields("good", desc="Whether it is good.")
    question = state._question("good", described.output_fields["good"], state.types["good"])
    assert question["type"] == "noul"
