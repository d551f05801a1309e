r"""Read the one rating a reply states; refuse a reply that states none, two, or one off the scale.

1. Markup, our own scale ("on a scale of 1 to 5", "(1-5)") and quotations are left out.
2. A number is a rating where every word of its clause is known to be the judge's own and one of
   them calls it a rating ("Final score: 4", "I'd give it a 4", "Coherence: 4/5"), or where it
   begins a sentence and stands alone or before a reason ("4", "4 - clear", "4. It is clear").
   In a JSON object the keys say what is a rating.
3. Where a clause says "final" or "overall", ratings of parts ("Depth: 3") do not count. Where the
   dimension is known, ratings of other qualities do not count. Otherwise all ratings must agree.
4. Another number in a rating's place ("not a 5", "actually 3", "Errors: 2") makes the reply fail,
   unless a rating that is called one follows it.
5. A rating that is withdrawn, refused, reckoned or on another scale makes the reply fail.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from judges.judgement import NoScoreError
from judges.parsing.choice import choices_made
from judges.parsing.text import (
    MAX_ANSWERS,
    OWN,
    REFUSED,
    WITHDRAWN,
    Clause,
    json_object,
    own_clause,
    plain_lines,
    sentences,
    shortened,
    words,
)

NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"
)  # fmt: skip
_WORD = "(?:" + "|".join(NUMBER_WORDS) + ")"
_ANY = rf"(?:\d{{1,9}}(?:\.\d{{1,6}})?|\b{_WORD}\b)"
# Digits with all that is glued to them, or a word, and "out of 5".
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w#$€£¥~≈<>≤≥+±¬!^&@%-])[#$€£¥~≈<>≤≥+±¬!^&@%-]{1,3})?"
    r"(?:(?<!\w)(?<!\w-)(?P<digits>\d[\d.,:/%°+~^*×÷½¼¾²³€\w-]*(?<![.,:/-]))"
    rf"|(?<![\w-])(?P<word>{_WORD})(?![\w-]))"
    r"(?: ?(?:/|out of|of|von|de|из|sur|su|di)(?: a)?(?: (?:possible|maximum|total|max)(?: of)?)?"
    rf" ?(?P<top>{_ANY})(?:\.0+)?(?![\w%]|[./]\d))?",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"((?:0|[1-9]\d{0,8})(?:\.\d{1,6})?)(?:/(\d{1,4})(?:\.0+)?)?(?:stars?|pts?|分|点|점)?", re.I
)
# What may stand alone on a line under its label.
_ALONE = rf"{_ANY}(?: ?/ ?\d{{1,3}}| out of {_ANY})?"

# Words that call a number a rating, and others that a clause with a rating may hold.
_RATING = words(
    "score scores scored scoring rating ratings rate rated rates grade graded give giving assign"
    " assigned assigning award awarded deserve deserves deserved earn earns earning receive"
    " receives received receiving meriting warranting get gets getting merit merits warrant"
    " warrants go say choose pick select settle"
)
_LABELS = words(
    "response output reply result answer overall verdict evaluation assessment label mark note nota"
    " voto cijfer wertung bewertung punktzahl puntuación puntaje calificación punteggio pontuação"
    " classificação avaliação оценка балл 评分 得分 分数 评级 評分 スコア 評価 点数 점수 평점"
    " التقييم"
)
_KNOWN = OWN | _RATING | _LABELS | words(
    "called quality form scores only can be out rating's point points star stars somewhat mostly"
    " relatively fairly moderately makes making evaluate assess judged"
)  # fmt: skip
_QUALITY = re.compile(
    r"(?:in|dis|ir|un)?(?:\w{3,}ness|coherence|coherency|consistency|fluency|relevance|relevancy"
    r"|engagement|informativity|factuality|safety|clarity|readability|accuracy|creativity|depth"
    r"|details?|specificity|empathy|grammar|grammaticality|tone|style|toxicity|coverage|adequacy"
    r"|fidelity|plausibility|originality|novelty|complexity|simplicity|diversity|formality"
    r"|similarity|logic|structure|organi[sz]ation|concision|attribution|alignment|usability|truth"
    r"|honesty|flow|focus|precision|understandability|likability|content)"
)
_QUALIFIER = re.compile(
    r"(?:in|dis|ir|un)?(?:coherent|consistent|fluent|relevant|engaging|grounded|natural|informative"
    r"|interesting|factual|accurate|attributable|faithful|helpful|quality)"
)
_LABELLED = re.compile(
    rf"(?:\A|\W)(?:{'|'.join(_LABELS)})(?: ?\([^()]*\))? ?(?:[:=–-]|→|is\b:?)"
    r"(?: (?:an?|just|only|clearly|solid))*\Z"
)
_ASSIGNS_RATING = re.compile(
    r"(?:\b(?:it|this|that|one|it's|that's)\b.*|\A|, ?)an?(?: \w+)?\Z|\bmak(?:es|ing) it\Z"
)
# "To get a 5", "give it a 5", "a perfect score is 5", "a low 4".
_NOT_GIVEN = re.compile(
    r"\A(?:to|both) |==|\ban? (?:\w+ )?(?:score|rating|summary|response|output|text) (?!of\b|:)"
    r"|\A(?:(?:do|just|simply|only) )?(?:(?:rate|give|assign|award|say|choose|pick|select|settle|go"
    r"|get|earn|deserve|receive)\b(?! ?:)|(?:score|grade) (?:it|this|that|the|an?)\b)"
    r"|\b(?:low|high)\Z"
)
# What a lone number may follow in its sentence; what may stand before another label.
_LEAD_IN_WORDS = words("a an so yes overall therefore thus hence good ok fair") | {"", "so a"}
_BEFORE_LABEL = re.compile(
    r"answer|verdict|scor|rat(?:e|ing)|evalu|conclusion|analysis|assess|response"
)

_UNIT = r"(?: ?-?(?:stars?|points?|pts?)\b| ?[⭐★分点점]+)?"
# What may follow a rating in its sentence, and a lone number or one under a label besides.
_TAIL = re.compile(
    rf"{_UNIT}[\"')]{{0,2}}(?: ?\Z|(?:\.|\.\.\.|!+)(?=[\"')]|\Z)| ?[,;:)](?=\s|\Z)| ?\((?![?±~≈])"
    r"| [–-](?=[ \D])|- (?=\D)| (?:for|on|in|because|since|as|given|due|based|with|overall|and|but"
    r"|from|here|which|considering|indicating|reflecting|suggesting|while|although|though|rating)\b)",
    re.IGNORECASE,
)
_REASON = re.compile(rf"{_UNIT}[\"')]{{0,2}} ?[:=] ?\S", re.IGNORECASE)
_NEXT = re.compile(r" (?:The|This|It|I|In|Summary|Response|Reasons?|Explanation|Justification)\b")
_PART = re.compile(
    r"\W*(?:(?:stars?|points?) )?(?:for|in|on|regarding) (?:the |its |perfect )?([\w-]+)",
    re.IGNORECASE,
)
_CORRECTIONS = words(
    "or maybe perhaps possibly probably actually rather instead correction make hmm wait"
    " alternatively"
)
_HEDGES = _CORRECTIONS | words(
    "almost nearly about around approximately at if unless nobody said says guess joking kidding"
    " plus minus times deduct subtract than above below under over between could might may won't"
    " wouldn't half"
)
_CORRECTION_OR_NEGATION = _CORRECTIONS | words(
    "no not then now never to plus minus deduct subtract"
)
_OTHER_SCALE = re.compile(
    rf"\((?:out )?of ({_ANY})\)|\bscale (?:of|from|is)? ?(?:{_ANY} ?(?:to|-|–) ?)?({_ANY})\b"
    rf"|\b({_ANY})-point scale\b|\((?:scale: ?)?[01] ?(?:to|-|–) ?({_ANY})\)"
    rf"|\b[01] ?(?:to|-|–) ?({_ANY}) scale\b|\(max(?:imum)?:? ?({_ANY})\)"
    rf"|\(({_ANY}) is (?:the )?best",
    re.IGNORECASE,
)
_ARITHMETIC = re.compile(
    r"\d ?[+=×÷*] ?\d|\d [–-] \d(?! ?[a-z])|\d (?:plus|minus|times|x) \d"
    r"|\b(?:[Mm]inus|deduct\w*|subtract\w*|tak\w+ off) \w*\d"
    # "4 but really 3", "4, but 3 overall": a second number that takes the first one's place.
    r"|\bbut,? (?:[a-z]+,? ){0,3}\d(?:\.\d+)?(?= ?(?:\s*\Z|\n|[.!;,)]| overall\b))"
)
_FINAL = words("final overall total")
_KEYS = words(
    "score rating grade final_score final_rating overall overall_score overall_rating mark label"
    " judgement judgment verdict answer result total_rating"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mention:
    """A number in a rating's place: a rating of `part`, where one is named, or a doubtful one."""

    value: float
    doubtful: bool = False
    labelled: bool = False  # called a rating, in so many words
    part: str = ""
    final: bool = False


def parse_rating(text: str, scale: Sequence[int], *, names: Collection[str] = ()) -> int:
    """Return the one rating `text` states on `scale`; NoScoreError quotes the reply in short.

    `names` are what the dimension is called, where that is known.
    """
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) < 7 and digits in map(str, scale):
        return int(digits)
    number = _one_number(text, scale, None, names)
    if number not in scale:
        raise NoScoreError(
            f"{number:g} is not on the scale from {scale[0]} to {scale[-1]}: {shortened(text)}"
        )
    return int(number)


def parse_score(
    text: str,
    scale: Sequence[int],
    *,
    letters: Mapping[str, float] | None = None,
    names: Collection[str] = (),
) -> float:
    """Like `parse_rating`, but "3.5" counts, for prompts that never asked for integers.

    `letters` ({"A": 1, ...}) is for prompts that offer lettered options; without it a letter is no
    rating.
    """
    number = _one_number(text, scale, letters, names)
    if not scale[0] <= number <= scale[-1]:
        raise NoScoreError(f"{number:g} is not from {scale[0]} to {scale[-1]}: {shortened(text)}")
    return number


def _one_number(
    text: str, scale: Sequence[int], letters: Mapping[str, float] | None, names: Collection[str]
) -> float:
    """The one rating that a reply states; NoScoreError where none, several or a doubtful one."""
    own_names = frozenset(name.lower().replace("_", " ") for name in names)
    before, items, after = json_object(plain_lines(text))
    mentions = [
        *_find_rating_mentions(before, scale, own_names),
        *_json_mentions(items, scale, own_names, text),
        *_find_rating_mentions(after, scale, own_names),
    ]
    ratings = _ratings_that_count(
        [mention for mention in mentions if not mention.doubtful], own_names
    )
    values = {rating.value for rating in ratings}
    if letters:
        values |= {float(letters[choice]) for choice in choices_made(text, list(letters))}
    if len(values) > 1:
        numbers = " and ".join(f"{value:g}" for value in sorted(values))
        raise NoScoreError(f"two ratings, {numbers}, in {shortened(text)}")
    if not values:
        raise NoScoreError(f"no rating from {scale[0]} to {scale[-1]} in {shortened(text)}")
    value = values.pop()
    last = max((i for i, mention in enumerate(mentions) if mention.labelled), default=0)
    if any(mention.doubtful and mention.value != value for mention in mentions[last:]):
        raise NoScoreError(f"another number where the rating belongs in {shortened(text)}")
    prose = f"{before}\n{after}"
    if WITHDRAWN.search(prose.lower()) or REFUSED.search(prose.lower()):
        raise NoScoreError(f"a rating that is withdrawn or refused in {shortened(text)}")
    if _ARITHMETIC.search(prose):
        raise NoScoreError(f"a rating that is reckoned in {shortened(text)}")
    scale_maxima = [
        denominator
        for match in _OTHER_SCALE.finditer(prose)
        for denominator in match.groups()
        if denominator
    ]
    if any(_value(denominator) != scale[-1] for denominator in scale_maxima):
        raise NoScoreError(f"a rating on another scale in {shortened(text)}")
    return value


def _ratings_that_count(ratings: Sequence[_Mention], names: frozenset[str]) -> list[_Mention]:
    """The ratings that must agree: the final ones, or the dimension's own, or all of one part."""
    if any(rating.final for rating in ratings):
        return [rating for rating in ratings if rating.final or not rating.part]
    if names:
        return [rating for rating in ratings if not rating.part or rating.part in names]
    parts = {rating.part for rating in ratings if rating.part}
    return list(ratings) if len(parts) < 2 else []


def _find_rating_mentions(
    text: str, scale: Sequence[int], names: frozenset[str]
) -> Iterator[_Mention]:
    """Every number stated as a rating, and every doubtful one that may be a competing rating."""
    n_numbers = 0
    for sentence in sentences(_without_scale(_without_list_numbers(text), scale), _ALONE):
        for number in _NUMBER.finditer(sentence):
            n_numbers += 1
            if n_numbers > MAX_ANSWERS:
                raise NoScoreError(f"more than {MAX_ANSWERS} possible answers: {shortened(text)}")
            mention = _mention(sentence, number, scale, names)
            if mention is not None:
                yield mention


def _mention(
    sentence: str, number: re.Match[str], scale: Sequence[int], names: frozenset[str]
) -> _Mention | None:
    before, after = sentence[: number.start()], sentence[number.end() :]
    value = _plain_value(number, scale[-1])
    following = re.findall(r"[\w']+", after[:60].lower())[:3]
    if value is None and re.search(r"[^\W\d_]", number["digits"] or ""):
        return None  # "4th", "2m"
    counts = re.match(r" ?-?[^\W\dA-Z_]", after) and not _TAIL.match(after)
    if counts and (following[0] == "of" or following[0] not in _HEDGES | OWN):
        return None  # "4 errors", "one of them"
    clause = own_clause(before, lambda word: _known(word.lower(), names))
    if clause and value is not None and not sentence.endswith("?") and not _HEDGES & set(following):
        rating = _rating(clause, number, value, after, names)
        if rating is not None:
            return rating
    previous = re.findall(r"[\w']+|[^\w\s]", before)[-1:]
    corrected = (
        bool(previous) and previous[0] != "May" and previous[0].lower() in _CORRECTION_OR_NEGATION
    )
    if not corrected and (value is None or not scale[0] <= value <= scale[-1]):
        return None
    if re.search(r"\b(?i:on|in|by|of|since|until) \Z", before) and re.match(" [A-Z]", after):
        return None  # "on 4 May"
    if number["word"] and [word.lower() for word in previous] not in (["a"], [":"], ["or"]):
        return None  # "this one"
    if (
        previous
        and not corrected
        and not own_clause(previous[0], lambda w: _known(w.lower(), names))
    ):
        return None  # "May 4"
    return _Mention(value=math.nan if value is None else value, doubtful=True)


def _rating(
    clause: Clause, number: re.Match[str], value: float, after: str, names: frozenset[str]
) -> _Mention | None:
    """The rating that a clause of known words states, if it states one."""
    if (after[:1] == ")" and "(" not in clause.text) or _NOT_GIVEN.search(clause.text):
        return None
    claim = clause.text.lstrip(" -•+⭐★'\"(").rstrip(" ⭐★'\"(")
    if not all(map(_BEFORE_LABEL.search, claim.split(":")[:-2])):
        return None
    claim_words = re.findall(r"[\w'-]+", claim)
    part = _part(claim, after, names)
    if part and part not in names and {"for", "in", "on", "as"} & set(claim_words[:1]):
        return None  # "For style I give it a 5"
    labelled = (
        bool(number["top"] or "/" in (number["digits"] or ""))
        or bool(_RATING & set(claim_words))
        or any(map(_names_quality, claim_words))
        or any(name in claim for name in names)
        or bool(_LABELLED.search(claim) or _ASSIGNS_RATING.search(claim))
    )
    if labelled and (_TAIL.match(after) or _NEXT.match(after)):
        final = not _FINAL.isdisjoint(claim_words)
        return _Mention(value=value, labelled=bool(claim), part=part, final=final)
    alone = (
        clause.begins_sentence and claim.strip(" ,") in _LEAD_IN_WORDS and not _PART.match(after)
    )
    if alone and not labelled and (_TAIL.match(after) or _REASON.match(after)):
        return _Mention(value=value)
    return None


def _part(claim: str, after: str, names: frozenset[str]) -> str:
    """The quality that a claim rates, where it names one."""
    tail = _PART.match(after)
    tail_words = [tail[1].lower()] if tail else []
    for word in [*tail_words, *reversed(re.findall(r"[\w'-]+", claim))]:
        if not _names_quality(word) and word not in names:
            continue
        own_name = next((name for name in names if _stem(name) == _stem(word)), None)
        if own_name or _QUALITY.fullmatch(word):
            return own_name or word
    return next((name for name in names if " " in name and name in claim), "")


def _names_quality(word: str) -> bool:
    return bool(_QUALITY.fullmatch(word) or _QUALIFIER.fullmatch(word))


def _stem(quality: str) -> str:
    """Alike for "coherence", "coherent" and "incoherence"."""
    return re.sub(r"\A(?:in|dis|ir|un)", "", quality)[:5]


def _known(word: str, names: frozenset[str]) -> bool:
    return word in _KNOWN or any(word in name.split() for name in names) or _names_quality(word)


def _plain_value(number: re.Match[str], denominator: int) -> float | None:
    """The value of a plain number on our scale; None for a date, a range, "8/10", "4+"."""
    if number["top"] and _value(number["top"]) != denominator:
        return None
    if number["word"]:
        return _value(number["word"])
    plain = _PLAIN.fullmatch(number["digits"])
    if (
        not plain
        or (plain[2] and float(plain[2]) != denominator)
        or number["sign"] not in (None, "-")
    ):
        return None
    return float(plain[1]) * (-1 if number["sign"] else 1)


def _value(number: str) -> float:
    word = number.lower()
    return float(NUMBER_WORDS.index(word) if word in NUMBER_WORDS else word)


def _json_mentions(
    items: Sequence[tuple[str, object]], scale: Sequence[int], names: frozenset[str], text: str
) -> Iterator[_Mention]:
    """The ratings of a JSON object: the values of keys that say so or that name a quality."""
    for key, value in items:
        key_words = re.split(r"[_ ]", key)
        part = _part(" ".join(key_words), "", names)
        if key not in _KEYS and not part:
            continue
        number = None if isinstance(value, bool) or not isinstance(value, int | float) else value
        if isinstance(value, str):
            ratings = list(_find_rating_mentions(plain_lines(value), scale, names))
            number = ratings[0].value if len(ratings) == 1 and not ratings[0].doubtful else None
        if number is not None:
            final = not _FINAL.isdisjoint(key_words)
            yield _Mention(value=float(number), labelled=True, part=part, final=final)
        elif key in _KEYS or part in names:
            raise NoScoreError(f"no number where the rating belongs in {shortened(text)}")


def _without_list_numbers(text: str) -> str:
    """Lines without the numbers that count them ("1. ...", "2. ...") or a label ("1. Depth: 3")."""
    counted = {int(number) for number in re.findall(r"^(\d{1,2})[.)] ", text, re.MULTILINE)}

    def line(match: re.Match[str]) -> str:
        label = re.match(rf"[^\W\d][^:=\n]{{0,60}}[:=] ?\(?{_ALONE}\)?[.!]?$", match[2], re.I)
        return match[2] if label or {int(match[1]) - 1, int(match[1]) + 1} & counted else match[0]

    return re.sub(r"^(\d{1,2})[.)] (.+)$", line, text, flags=re.MULTILINE)


def _without_scale(text: str, scale: Sequence[int]) -> str:
    """A text without our own scale, wherever it is repeated; one that is a label is "Rating"."""
    text = _scale_pattern(scale[0], scale[-1]).sub(" ", text)
    return re.sub(r"(?m)^[ ,]*:(?= ?\d)", "Rating:", text)


@lru_cache(maxsize=64)
def _scale_pattern(low: int, high: int) -> re.Pattern[str]:
    """What describes the scale and so states no rating: "from 1 to 5", "on a 5-point scale"."""
    lowest, highest = (
        f"(?:{n}|{NUMBER_WORDS[n]})" if 0 <= n < len(NUMBER_WORDS) else str(n) for n in (low, high)
    )
    aside = r"(?: ?\([^()\n]{0,30}\))?"
    ends = rf"{lowest}{aside} ?(?:to|-|–) ?{highest}{aside}"
    means = r" ?(?:=|:|is|being|meaning|-|–)[^()\n]"
    return re.compile(
        rf"[(\[](?:[a-z ]{{0,20}}\b)?{ends}[^()\n\]]{{0,40}}[)\]]"
        rf"|(?:\b(?:on|using) )?(?:(?:a|the) )?\b(?:scale |range )?(?:of |from )?{ends}"
        rf"(?:-point)?(?: (?:likert )?scale)?(?![\w.,]?\d)"
        rf"|\bbetween {lowest} and {highest}(?![\w.,]?\d)"
        rf"|(?:\bon )?(?:a |the )?\b{highest}-point (?:likert )?scale|\bon a scale of {highest}\b"
        rf"|\(?\bout of {highest}(?:\)|(?= ?:))|\({highest} is (?:the )?(?:best|highest|max\w*)\)"
        rf"|\((?:where |with )?{lowest}{means}{{0,80}}\b{highest}{means}{{0,60}}\)",
        re.IGNORECASE,
    )
