"""A judge of pass and fail by dspy.GEPA, in the thirty lines that a good user of DSPy writes.

python first_dollar_gepa.py LABELS.json URL DEFINITION SEED DOLLARS|light, started by
first_dollar.py. LABELS.json has rows of `train` and `val`; the prompt's messages for each row of
`fresh` are printed. It stops when the server's /dollars reach DOLLARS.
"""

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any, Literal

import dspy

path, url, definition, seed, dollars = sys.argv[1:]
rows = json.loads(Path(path).read_text())


class Judge(dspy.Signature):  # type: ignore[misc]
    """Judge whether the support bot's reply passes or fails."""

    input: str = dspy.InputField()
    output: str = dspy.InputField()
    label: Literal["pass", "fail"] = dspy.OutputField()


def metric(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, at: Any = None) -> Any:
    right = gold.label == pred.label
    feedback = f"{'Correct' if right else 'Wrong'}: people say {gold.label}. {gold.critique}"
    return dspy.Prediction(score=float(right), feedback=feedback.strip())


def examples(part: str) -> list[Any]:
    return [dspy.Example(**row).with_inputs("input", "output") for row in rows[part]]


def is_spent(state: Any) -> bool:
    with urllib.request.urlopen(url.removesuffix("v1") + "dollars") as answer:
        return float(answer.read()) >= float(dollars)


how = {"api_base": url, "api_key": "simulated"}
judge = dspy.LM("openai/gpt-4.1-mini", temperature=0.0, max_tokens=1000, **how)
proposer = dspy.LM("openai/gpt-5-mini", temperature=1.0, max_tokens=16_000, **how)
dspy.configure(lm=judge, adapter=dspy.ChatAdapter())
limit: dict[str, Any] = {"auto": "light"}
if dollars != "light":
    limit = {"max_metric_calls": 10**6, "gepa_kwargs": {"stop_callbacks": is_spent}}
signature = Judge.with_instructions(f"Judge {definition}") if definition else Judge
optimizer = dspy.GEPA(metric, reflection_lm=proposer, num_threads=8, seed=int(seed), **limit)
program = optimizer.compile(
    dspy.Predict(signature), trainset=examples("train"), valset=examples("val")
)
adapter, fresh = dspy.ChatAdapter(), rows["fresh"]
print(json.dumps([adapter.format(program.signature, demos=[], inputs=row) for row in fresh]))
