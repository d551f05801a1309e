"""Write replies in the format asked for, with the probabilities behind every choice."""

import json
import math
import random
from collections.abc import Mapping, Sequence

from judges.models.embedded.request import Task
from judges.models.protocol import Reply, Token
from judges.prompt import END, HEADER, Value, neutralise

LEAST = 1e-9


def choose(probabilities: Sequence[float], temperature: float | None, rng: random.Random) -> int:
    """Draw a place by its probability, sharpened or flattened; at 0 the first likeliest."""
    heat = 1.0 if temperature is None else temperature
    if heat <= 1e-3:
        return max(range(len(probabilities)), key=lambda place: (probabilities[place], -place))
    logs = [math.log(max(LEAST, p)) / heat for p in probabilities]
    most = max(logs)
    weights = [math.exp(log - most) for log in logs]
    return rng.choices(range(len(weights)), weights)[0]


def alternatives(
    choices: Sequence[Value], probabilities: Sequence[float], n: int, chosen: int
) -> dict[str, float]:
    """At most n choices with their log-probabilities: the chosen one and the likeliest.

    Where "5" is among them and some longer "50" is a choice, so is one that begins alike: it shows
    that a number is always one token here.
    """
    order = sorted(range(len(choices)), key=lambda place: -probabilities[place])
    order.sort(key=lambda place: place != chosen)
    kept = order[: max(1, n)]
    names = [str(choice) for choice in choices]
    while True:
        shown = {names[place] for place in kept}
        extra = [e for place in kept if (e := _longer(place, names, shown)) is not None]
        missing = list(dict.fromkeys(extra))
        if not missing or len(kept) <= len(missing) + 1:
            break
        room = max(1, n - len(missing))
        if len(kept) <= room:
            kept += missing
            break
        kept = kept[:room]
    return {names[place]: math.log(max(LEAST, probabilities[place])) for place in kept}


def _longer(place: int, names: Sequence[str], shown: set[str]) -> int | None:
    """A longer number that begins with this one, where none is shown yet."""
    name = names[place]
    if not name.isdigit():
        return None
    longer = [i for i, other in enumerate(names) if other != name and other.startswith(name)]
    if not longer or any(names[i] in shown for i in longer):
        return None
    return longer[0] if names[longer[0]].isdigit() else None


def write(
    task: Task, values: Mapping[str, str], choice: str | None, top: Mapping[str, float]
) -> Reply:
    """One reply: `values` in the task's format; the choice's token carries its alternatives."""
    before, told, after = _layout(task, values, choice)
    text = before + told + after
    if not top:
        return Reply(text=text)
    pieces = [(before, {}), (told, dict(top)), (after, {})]
    return Reply(text=text, tokens=tuple(Token(piece, tops) for piece, tops in pieces if piece))


def _layout(task: Task, values: Mapping[str, str], choice: str | None) -> tuple[str, str, str]:
    """The reply cut at the value of the field `choice`."""
    if task.style == "ours" and len(task.writes) == 1 and choice:
        return "", values[choice], ""
    if task.style == "json":
        shown: dict[str, object] = {
            field.name: _plain(values[field.name], field.choices) for field in task.writes
        }
        text = json.dumps(shown, ensure_ascii=False)
        start = text.rfind(values[choice]) if choice else len(text)
        stop = start + len(values[choice]) if choice else start
        return text[:start], text[start:stop], text[stop:]
    before, told, after = "", "", ""
    for field in task.writes:
        before += f"{after}{HEADER.format(name=field.name)}\n"
        after = "\n\n"
        if field.name == choice:
            before, told, after = before, values[field.name], "\n\n"
            rest = [
                f"{HEADER.format(name=other.name)}\n{neutralise(values[other.name])}\n\n"
                for other in task.writes[task.writes.index(field) + 1 :]
            ]
            return before, told, after + "".join(rest) + END
        before += neutralise(values[field.name])
    return before + f"\n\n{END}", "", ""


def _plain(value: str, choices: Sequence[Value] | None) -> Value:
    return int(value) if choices and isinstance(choices[0], int) else value
