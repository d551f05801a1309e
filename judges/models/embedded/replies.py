"""Write replies in the format asked for: a choice with its probabilities, and why in a sentence."""

import json
import math
import random
from collections.abc import Mapping, Sequence

import numpy as np

from judges.models.embedded.facets import PHRASES, Vector
from judges.models.embedded.regression import Prediction
from judges.models.embedded.request import Task
from judges.prompt import END, HEADER, Field, Value, neutralise
from judges.protocol import Reply, Token

LEAST_PROBABILITY = 1e-9
# A facet whose part in a score is smaller decided nothing.
LEAST_PART = 0.05
MOST_NAMES = 6
NOTHING = "This is a statistical judge, not a language model: it rates texts by counted facets."


def draw(probabilities: Sequence[float], temperature: float | None, rng: random.Random) -> int:
    """Draw a place by its probability, sharpened or flattened; at 0 the first likeliest."""
    heat = 1.0 if temperature is None else temperature
    if heat <= 1e-3:
        return max(range(len(probabilities)), key=lambda place: (probabilities[place], -place))
    logs = [math.log(max(LEAST_PROBABILITY, p)) / heat for p in probabilities]
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    return rng.choices(range(len(weights)), weights)[0]


def top_logprobs(
    choices: Sequence[Value], probabilities: Sequence[float], n: int, chosen: int
) -> dict[str, float]:
    """At most n choices with their log-probabilities: the chosen one and the likeliest.

    Where "5" is among them and some longer "50" is a choice, so is one that begins alike: it shows
    that a number is always one token here.
    """
    order = sorted(range(len(choices)), key=lambda place: (place != chosen, -probabilities[place]))
    top = order[: max(1, n)]
    names = [str(choice) for choice in choices]
    while True:
        present = {names[place] for place in top}
        longer = [_longer(place, names, present) for place in top]
        missing = list(dict.fromkeys(place for place in longer if place is not None))
        if not missing or len(top) <= len(missing) + 1:
            break
        room = max(1, n - len(missing))
        if len(top) <= room:
            top += missing
            break
        top = top[:room]
    return {names[place]: math.log(max(LEAST_PROBABILITY, probabilities[place])) for place in top}


def _longer(place: int, names: Sequence[str], present: set[str]) -> int | None:
    """A longer number that begins with this one, where none is present yet."""
    name = names[place]
    longer = [i for i, other in enumerate(names) if other != name and other.startswith(name)]
    if not name.isdigit() or not longer or any(names[i] in present for i in longer):
        return None
    return longer[0] if names[longer[0]].isdigit() else None


def write_reply(
    task: Task, values: Mapping[str, str], choice: str | None, top: Mapping[str, float]
) -> Reply:
    """One reply: `values` in the task's format; the choice's token carries its alternatives."""
    before, chosen, after = _layout(task, values, choice)
    text = before + chosen + after
    if not top:
        return Reply(text=text)
    tokens = (Token(before, {}), Token(chosen, dict(top)), Token(after, {}))
    return Reply(text=text, tokens=tuple(token for token in tokens if token.text))


def _layout(task: Task, values: Mapping[str, str], choice: str | None) -> tuple[str, str, str]:
    """The reply cut at the value of the field `choice`."""
    if task.dialect == "project" and len(task.outputs) == 1 and choice:
        return "", values[choice], ""
    if task.dialect == "json":
        fields = {
            field.name: int(values[field.name])
            if field.choices and isinstance(field.choices[0], int)
            else values[field.name]
            for field in task.outputs
        }
        text = json.dumps(fields, ensure_ascii=False)
        return text.rpartition(values[choice]) if choice and values[choice] else (text, "", "")
    names = [field.name for field in task.outputs]
    blocks = [f"{HEADER.format(name=name)}\n{neutralise(values[name])}" for name in names]
    if choice is None:
        return "\n\n".join([*blocks, END]), "", ""
    place = names.index(choice)
    before = "\n\n".join([*blocks[:place], f"{HEADER.format(name=choice)}\n"])
    return before, values[choice], "\n\n" + "\n\n".join([*blocks[place + 1 :], END])


def rationale(prediction: Prediction, name: str) -> str:
    """What speaks for and against the one text."""
    good, bad = _sides(prediction.parts)
    what = f"The {name.replace('_', ' ')}"
    praise = " and ".join(PHRASES[place].asks for place in good)
    blame = " and ".join(PHRASES[place].weakness for place in bad)
    if praise and blame:
        return f"{what} {praise}, but it {blame}."
    return f"{what} {praise or blame or 'is ordinary in every respect'}."


def comparison(prediction: Prediction, name: str) -> str:
    """Which of the two is preferred, and by what; the same whichever stands first."""
    first = prediction.latent >= 0
    better, worse = ("A", "B") if first else ("B", "A")
    good, bad = _sides(prediction.parts if first else -prediction.parts)
    word = name.rsplit("_", 1)[0].replace("_", " ")
    title = word.capitalize()
    if not good and not bad:
        return f"{title} A and {word} B are alike in every respect."
    praise = " and ".join(PHRASES[place].strength for place in good)
    though = f", though {word} {worse} {PHRASES[bad[0]].strength}" if bad else ""
    return f"{title} {better} {praise or 'is slightly better on the whole'}{though}."


def _sides(parts: Vector) -> tuple[list[int], list[int]]:
    """The two facets that speak most for, and the two most against."""
    order = [int(place) for place in np.argsort(-parts, kind="stable")]
    good = [place for place in order[:2] if parts[place] > LEAST_PART]
    bad = [place for place in order[::-1][:2] if parts[place] < -LEAST_PART]
    return good, bad


def describe(field: Field, task: Task, texts: Mapping[str, str]) -> str:
    """Two true sentences about the prompt, as DSPy's proposers ask for: a judge knows no more."""
    names = [item.name.replace("_", " ") for item in task.inputs][:MOST_NAMES]
    if not names:
        return NOTHING
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    n_words = sum(len(text.split()) for text in texts.values())
    return (
        f"The {field.name.replace('_', ' ')} rests on the {listed} given, some"
        f" {max(10, round(n_words, -1))} words in all. The task appears to be to judge texts by the"
        " qualities that its instruction names."
    )
