"""A judge as one file of another tool's code, which needs no package of ours: prompt, plan, parser.

Each asks the judge's model with the judge's messages, reads a reply that is the rating alone (or
stands under its header), and makes the score by the judge's plan: one reply, a mean, or ratings
weighted by their probabilities.
"""

import builtins
import json
import keyword
import re

from judges.dimension import Dimension
from judges.judge import Judge
from judges.models.dialect import Dialect
from judges.prompt import HEADER, MARKER_START, MARKERS_AS_WRITTEN, MARKERS_IN_ANY_CASE
from judges.protocol import is_embedded
from judges.scoring import sampling_of

_IMPORTS = re.compile(r"^(?:from \S+ )?import (.+)$|^(?:def|class) (\w+)", re.MULTILINE)
_MARK = re.compile(r"@([a-z_]+)@")
# Where `python -m judges serve embedded` answers.
SERVED = "http://127.0.0.1:8000/v1"

PYTHON = r'''
MODEL = @model@
ADDRESS = @address@  # None: the provider's own, or OPENAI_BASE_URL
MESSAGES = @messages@
SCALE = @scale@
HEADER = @header@  # what stands before the rating in a reply; "" for nothing
REQUEST = @request@
SCORE_MAP = @score_map@  # the judge's scores and what each becomes; None: they stay
# What a text could use to look like the prompt's own framing, and how each of these begins.
START = re.compile(@marker_start@)
MARKERS = re.compile(@markers@), re.compile(@markers_in_any_case@, re.IGNORECASE)


def neutral(text):
    """A text whose markers are broken by a space, so that it can frame nothing."""

    def broken(start):
        found = any(marker.match(text, start.start()) for marker in MARKERS)
        return start.group() + " " * found

    return START.sub(broken, text)


def messages_of(texts):
    """What is sent: the texts stand in the slots of the last message."""
    slot = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")
    content = slot.sub(lambda name: neutral(str(texts[name[1]])), MESSAGES[-1]["content"])
    return [*MESSAGES[:-1], {**MESSAGES[-1], "content": content}]


def rating_in(reply):
    """Where the rating stands; ValueError in a reply that holds anything else there."""
    found = reply.rfind(HEADER) if HEADER else 0
    alone = re.compile(r"\s*(-?\d+)\s*(?=\Z|\[\[ ## )")
    rating = alone.match(reply, found + len(HEADER))
    if found < 0 or rating is None or int(rating[1]) not in SCALE:
        raise ValueError(f"no rating alone in the reply {reply[:80]!r}")
    return rating


def expectation(reply, tokens):
    """The ratings weighted by the probabilities of the token that names the rating."""
    place, end, top = rating_in(reply).start(1), 0, {}
    for text, alternatives in tokens:
        end += len(text)
        if end > place:
            top = alternatives
            break
    mass = dict.fromkeys(SCALE, 0.0)
    for text, logprob in top.items():
        if text.strip() in map(str, SCALE):
            mass[int(text.strip())] += math.exp(logprob)
    total = math.fsum(mass.values())
    if not total:
        raise ValueError("the model gave no log-probabilities of ratings")
    return math.fsum(rating * (part / total) for rating, part in mass.items())


def score_of(replies):
    """The score of (text, tokens) replies; those of another form are left out of a mean."""
    scores, problem = [], "no reply"
    for text, tokens in replies:
        try:
            weighted = "top_logprobs" in REQUEST
            scores.append(expectation(text, tokens) if weighted else int(rating_in(text)[1]))
        except ValueError as error:
            problem = str(error)
    if not scores:
        raise ValueError(problem)
    score = math.fsum(scores) / len(scores)
    if SCORE_MAP is None:
        return score
    before, after = SCORE_MAP
    piece = max(0, min(bisect.bisect_right(before, score) - 1, len(before) - 2))
    (x0, x1), (y0, y1) = before[piece : piece + 2], after[piece : piece + 2]
    return y0 + (score - x0) * ((y1 - y0) / (x1 - x0))

'''

DEEPEVAL = '''"""The judge @name@ as a DeepEval metric: metric = JudgeMetric(threshold=...).

@origin@
@texts@
"""

import bisect
import math
import os
import re

from deepeval.metrics import BaseMetric
from openai import AsyncOpenAI, OpenAI
@core@
def texts_of(case):
    return {**(case.metadata or {}), @from_input@: case.input, @from_output@: case.actual_output}


class JudgeMetric(BaseMetric):
    """Scores on the judge's own scale; what has no rating has an error and no score."""

    def __init__(self, threshold):
        self.threshold = threshold
        self.evaluation_model = MODEL
        self.options = {"base_url": ADDRESS, "api_key": @key@}

    def ask(self, case):
        return {"model": MODEL, "messages": messages_of(texts_of(case)), **REQUEST}

    def read(self, answer):
        replies = []
        for choice in answer.choices:
            tokens = (choice.logprobs and choice.logprobs.content) or []
            top = [(t.token, {a.token: a.logprob for a in t.top_logprobs}) for t in tokens]
            replies.append((choice.message.content or "", top))
        self.score, self.error, self.reason = None, None, replies[0][0]
        try:
            self.score = score_of(replies)
        except ValueError as error:
            self.error = str(error)
        self.is_successful()
        return self.score

    def measure(self, test_case, *args, **kwargs):
        with OpenAI(**self.options) as client:
            return self.read(client.chat.completions.create(**self.ask(test_case)))

    async def a_measure(self, test_case, *args, **kwargs):
        async with AsyncOpenAI(**self.options) as client:
            return self.read(await client.chat.completions.create(**self.ask(test_case)))

    @property
    def __name__(self):
        return @name@
'''

INSPECT = '''"""The judge @name@ as an Inspect scorer: Task(..., scorer=@name_word@()).

@origin@
@texts@
"""

import bisect
import math
import os
import re

from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import Score, mean, scorer, stderr
@core@
ROLES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
# What Inspect calls by other names.
OTHERS = {"n": "num_choices", "max_completion_tokens": "max_tokens"}
# Chat completions, of which the judge is one.
OPTIONS = {"responses_api": False} if MODEL.startswith("openai/") else {}
CONFIG = {OTHERS.get(name, name): value for name, value in REQUEST.items()}


@scorer(metrics=[mean(), stderr()])
def @name_word@():
    """Scores on the judge's own scale; what has no rating is unscored and says why."""

    async def score(state, target):
        given = {@from_input@: state.input_text, @from_output@: state.output.completion}
        messages = messages_of({**(state.metadata or {}), **given})
        asked = [ROLES[message["role"]](content=message["content"]) for message in messages]
        model = get_model(MODEL, base_url=ADDRESS, api_key=@key@, **OPTIONS)
        answer = await model.generate(asked, config=GenerateConfig(**CONFIG))
        replies = []
        for choice in answer.choices:
            tokens = (choice.logprobs and choice.logprobs.content) or []
            top = [(t.token, {a.token: a.logprob for a in t.top_logprobs or []}) for t in tokens]
            replies.append((choice.message.text, top))
        try:
            return Score(value=score_of(replies), explanation=replies[0][0])
        except ValueError as error:
            return Score.unscored(reason="grader_failed", explanation=str(error))

    return score
'''

PROMPTFOO = r"""// The judge @name@ as a promptfoo assertion, on the judge's own scale:
//   assert: [{type: javascript, value: 'file://@name_word@.js', threshold: 3}]
// @origin@
// @texts@
const MODEL = @model@;
const ADDRESS = @address@ || process.env.OPENAI_BASE_URL || 'https://api.openai.com/v1';
const MESSAGES = @messages@;
const SCALE = @scale@;
const HEADER = @header@; // what stands before the rating in a reply; '' for nothing
const REQUEST = @request@;
const SCORE_MAP = @score_map@; // the judge's scores and what each becomes; null: they stay
// What a text could use to look like the prompt's own framing, and how each of these begins.
const START = new RegExp(@marker_start@, 'g');
const MARKERS = [new RegExp(@markers@, 'y'), new RegExp(@markers_in_any_case@, 'iy')];

// A text whose markers are broken by a space, so that it can frame nothing.
function neutral(text) {
  return text.replace(START, (start, place) => {
    const found = MARKERS.some((marker) => {
      marker.lastIndex = place;
      return marker.test(text);
    });
    return found ? `${start} ` : start;
  });
}

// What is sent: the texts stand in the slots of the last message.
function messagesOf(texts) {
  const last = MESSAGES[MESSAGES.length - 1];
  const content = last.content.replace(/\{\{([a-z][a-z0-9_]*)\}\}/g, (slot, name) => {
    if (typeof texts[name] !== 'string') throw new Error(`no text for ${name} among the vars`);
    return neutral(texts[name]);
  });
  return [...MESSAGES.slice(0, -1), { ...last, content }];
}

// Where the rating stands; an error in a reply that holds anything else there.
function ratingIn(reply) {
  const found = HEADER ? reply.lastIndexOf(HEADER) : 0;
  const start = found + HEADER.length;
  const rating = found < 0 ? null : /^(\s*)(-?\d+)\s*(?=$|\[\[ ## )/.exec(reply.slice(start));
  if (!rating || !SCALE.includes(Number(rating[2]))) {
    throw new Error(`no rating alone in the reply ${JSON.stringify(reply.slice(0, 80))}`);
  }
  return { value: Number(rating[2]), place: start + rating[1].length };
}

// The ratings weighted by the probabilities of the token that names the rating.
function expectation(reply, tokens) {
  const { place } = ratingIn(reply);
  let end = 0;
  const chosen = tokens.find((token) => (end += token.token.length) > place);
  const mass = SCALE.map(() => 0);
  for (const { token, logprob } of chosen ? chosen.top_logprobs : []) {
    const index = SCALE.map(String).indexOf(token.trim());
    if (index >= 0) mass[index] += Math.exp(logprob);
  }
  const total = mass.reduce((sum, part) => sum + part, 0);
  if (!total) throw new Error('the model gave no log-probabilities of ratings');
  return mass.reduce((sum, part, index) => sum + SCALE[index] * (part / total), 0);
}

// The score of all replies; those of another form are left out of a mean.
function scoreOf(choices) {
  const scores = [];
  let problem = new Error('no reply');
  for (const { message, logprobs } of choices) {
    const reply = message.content || '';
    try {
      const weighted = 'top_logprobs' in REQUEST;
      const tokens = (logprobs && logprobs.content) || [];
      scores.push(weighted ? expectation(reply, tokens) : ratingIn(reply).value);
    } catch (error) {
      problem = error;
    }
  }
  if (!scores.length) throw problem;
  const score = scores.reduce((sum, one) => sum + one, 0) / scores.length;
  if (SCORE_MAP === null) return score;
  const [before, after] = SCORE_MAP;
  let piece = 0;
  while (piece < before.length - 2 && before[piece + 1] <= score) piece += 1;
  const slope = (after[piece + 1] - after[piece]) / (before[piece + 1] - before[piece]);
  return after[piece] + (score - before[piece]) * slope;
}

module.exports = async (output, context) => {
  const texts = { ...context.vars, @from_output@: String(output) };
  const headers = { 'Content-Type': 'application/json' };
  const key = @key@;
  if (key) headers.Authorization = `Bearer ${key}`;
  const body = JSON.stringify({ model: MODEL, messages: messagesOf(texts), ...REQUEST });
  const answer = await fetch(`${ADDRESS}/chat/completions`, { method: 'POST', headers, body });
  if (!answer.ok) throw new Error(`${answer.status} from ${MODEL}: ${await answer.text()}`);
  const { choices } = await answer.json();
  const score = scoreOf(choices);
  const threshold = context.assertion && context.assertion.threshold;
  const pass = threshold === undefined || threshold === null || score >= threshold;
  return { pass, score, reason: choices[0].message.content };
};
"""


def write_script(judge: Judge, template: str) -> str:
    """One of these templates with the judge in it; its subject is a dimension."""
    subject, plan = judge.subject, judge.resolved_plan()
    assert isinstance(subject, Dimension)
    javascript = template is PROMPTFOO
    embedded = is_embedded(judge.lm)
    sampling = sampling_of(plan, judge.prompt)
    request = Dialect.of(judge.lm).body("", [], sampling)
    request = {name: request[name] for name in request if name not in ("model", "messages")}
    name = "embedded" if embedded else judge.lm.partition("/")[2] or judge.lm
    if template is INSPECT:
        # Inspect sends what it knows OpenAI's models to take; elsewhere, all that is asked for.
        elsewhere = embedded or judge.api_base
        name = f"openai-api/judge/{name}" if elsewhere else judge.lm
    address = judge.api_base or (SERVED if embedded else None)
    answer = judge.prompt.answer
    header = HEADER.format(name=answer.name) if len(judge.prompt.outputs) > 1 else ""
    samples = f" of {plan.samples}" if plan.kind == "mean" else ""
    served = f"; python -m judges serve embedded answers at {SERVED}" if embedded else ""
    if javascript:
        key = "''" if embedded else "process.env.OPENAI_API_KEY"
        given = f"vars hold {', '.join(judge.texts[:-1]) or 'nothing'}"
    else:
        key = "'none'" if embedded else "os.environ.get('OPENAI_API_KEY', 'none')"
        first = judge.texts[0] if len(judge.texts) == 2 else "nothing"
        others = judge.texts[:-1] if len(judge.texts) > 2 else ()
        given = f"the input is {first}; metadata hold {', '.join(others) or 'no text'}"
    plain = {
        "name_word": judge.name if javascript else python_name(judge.name, template + PYTHON),
        "origin": f"Plan {plan.kind}{samples}; made by dspy-judges{served}.",
        "texts": f"Texts: the output is {judge.texts[-1]}; {given}.",
        "key": key,
    }
    # An input that no text is would stand under a name that no slot has.
    from_input = judge.texts[0] if len(judge.texts) == 2 else "input"
    values = {
        "name": judge.name,
        "model": name,
        "address": address,
        "messages": judge.template(),
        "scale": list(subject.scale),
        "header": header,
        "request": request,
        "score_map": None,
        "marker_start": MARKER_START.pattern,
        "markers": MARKERS_AS_WRITTEN,
        "markers_in_any_case": MARKERS_IN_ANY_CASE,
        "from_input": from_input,
        "from_output": judge.texts[-1],
    }
    write = _javascript if javascript else _python
    text = template.replace("@core@", PYTHON)
    # The judge's own texts last: what looks like a mark in them stays.
    for mark, value in plain.items():
        text = text.replace(f"@{mark}@", value)
    parts = _MARK.split(text)
    return "".join(write(values[part]) if i % 2 else part for i, part in enumerate(parts))


def python_name(name: str, code: str = "") -> str:
    """A judge's name as a variable's in `code`; one that Python or the code uses gets `_judge`."""
    imports = [word for match in _IMPORTS.finditer(code) for word in re.findall(r"\w+", match[0])]
    used = keyword.iskeyword(name) or hasattr(builtins, name) or name in imports
    return f"{name}_judge" if used else name


def _javascript(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _python(value: object) -> str:
    """A literal; a list of messages on lines, as JSON writes it, which is Python as well."""
    is_messages = isinstance(value, list) and value and isinstance(value[0], dict)
    return _javascript(value) if is_messages else repr(value)
