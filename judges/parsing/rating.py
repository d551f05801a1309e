r"""Find the one rating a reply gives; refuse a reply that gives none, two, or one off the scale.

Every number is looked at. It is a candidate where it is called the score or rating ("Final score:
4.", "a score of 4", "Coherence: 4"), where it is what the output is given ("I'd give it a 4"),
where it is "4 out of 5" or "4/5", and where it stands alone (on its own line or as its own last
sentence; first, before an explanation: "2. The reply ..."; the value of a JSON key). All candidates
must say the same. A label that says "final" or "overall" speaks for those that name a part
("Coverage: 3").

A number where a rating belongs that is negated, supposed, quoted, asked, hedged ("3-4", "3 or 4"),
reckoned ("3 + 1 = 4"), on another scale or under another quantity's name ("Number of errors: 2",
"Confidence: 5") makes the whole reply fail. Numbers within prose are no candidates.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from judges.judgement import NoScoreError
from judges.parsing.choice import (
    CORRECTED,
    QUALITY,
    REFUSED,
    TAKEN_BACK,
    UNDONE,
    choices_made,
    doubted,
    few,
    json_object,
    own_words,
    plain_lines,
    quoted,
    sentence_before,
    shortened,
    word_set,
)

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_WORD = "(?:" + "|".join(WORDS) + ")"
_NUMBER = re.compile(rf"\d{{1,9}}(?:\.\d{{1,6}})?|(?<![\w-]){_WORD}(?![\w-])", re.IGNORECASE)
_ANY = rf"(?:\d{{1,9}}(?:\.\d{{1,6}})?|\b{_WORD}\b)"
_FOREIGN = (
    r"note|nota|bewertung|punktzahl|wertung|puntuación|puntaje|calificación|punteggio|voto"
    r"|pontuação"
    r"|classificação|avaliação|cijfer|оценка|балл|评分|得分|分数|评级|評分|スコア|評価|点数|점수|평점"
)
_NOUN = (
    r"(?:scores?|ratings?|rated|grade|mark|verdict|answer|label|evaluation|assessment"
    rf"|judge?ment|{_FOREIGN})"
)
_LEAD = (
    r"(?:(?:a|an|the|of|as|at|is|be|to be|solid|clear|strong|definite|firm|fair|good|high|low"
    r"|perfect"
    r"|full|therefore|thus|just|only|simply|clearly|exactly|:|=) ){0,4}"
)
_COPULA = (
    r" (?:is|as|of|at|was|equals|would be|should be|will be|must be|is therefore|is thus|comes to"
    r"|comes out (?:at|to)|remains|stands at|(?:is )?as follows)"
)
_LINK = rf"(?:(?: ?[\"']? ?(?:[:=]|[-=]>|→)| [–-]|{_COPULA}:?) ?[\"'(]{{0,2}}{_LEAD}| )"
_CALLED = re.compile(
    rf"(?<![^\W_])(?P<noun>{_NOUN})(?P<aside> ?\([^()\n]{{0,40}}\))?"
    rf"(?P<part> (?:for|of|on|in|regarding) [^.:;=\n\d]{{1,60}}?)??(?P<link>{_LINK})\Z",
    re.IGNORECASE,
)
_GIVING = (
    r"(?:rates?|rated|rating|scored?|scores|scoring|graded?|marked|evaluated?|assess(?:ed)?|judged?"
    r"|gives?|given|giving|gave|gets?|got|getting|makes?|making|awards?|awarded|awarding"
    r"|assign(?:s|ed|ing)?"
    r"|deserv(?:e|es|ing)|earn(?:s|ed|ing)?|receiv(?:e|es|ed|ing)|merit(?:s|ing)?|warrant(?:s"
    r"|ing)?|grant"
    r"|say|go with|going with|settle (?:on|for)|choose|pick|select|land on|call|arrive at"
    r"|opt for|stick with)"
)
_TARGET = (
    r"(?:it|this|that|them|one|as|at|a|an|to|with|summary|response|output|text|answer|reply|article"
    r"|dialogue|translation|story|essay|conversation|document|system|model|here)"
)
_GIVEN = re.compile(
    rf"\b(?P<verb>{_GIVING})(?: [^\W\d_]+){{0,8}}? ?(?:(?<= )|(?<=\b){_TARGET} )"
    r"(?:(?:a|an|as|at|to be|solid|clear|strong|firm|definite|perfect|full|high|low|fair|good"
    r"|decent"
    r"|only|just|about) ){0,3}:? ?\Z",
    re.IGNORECASE,
)
_DIRECT = re.compile(
    rf"\b{_TARGET} (?:(?:solid|clear|strong|firm|perfect|full|high|low|fair|good|decent|only"
    rf"|just) ){{0,2}}\Z|\b(?:rated?|say|give|assign|go with|going with|settle on|choose|pick"
    rf"|select"
    rf"|deserves?|earns?|merits?):? \Z",
    re.IGNORECASE,
)
_ISA = re.compile(
    r"\b(?:it(?:'s| is| would be)|this would be|this is|that's|that is|this one is|summary is"
    r"|response is|output is|text is"
    r"|reply is|it remains)(?: clearly| therefore| thus| still| just| only)? an? "
    r"(?:(?:solid|clear|strong|firm|definite|perfect|fair|good|decent) ){0,2}\Z",
    re.IGNORECASE,
)
_SAYING = re.compile(
    r"(?:\A|[\n.!?;,:/(–] ?|\s)(?:(?:so|thus|therefore|hence|overall|finally|yes|no|okay|ok"
    r"|actually"
    r"|wait|correction|sorry|instead|rather|make (?:it|that)|i mean|i'd say|i say|i would say"
    r"|in conclusion|in short|in sum|in total|change(?:d)? (?:(?:it|that|this|my \w+) )?to"
    r"|revised?(?: it)?"
    r"(?: (?:up|down))? to)[,:]? )(?:(?:so|i'd say|i say|it is|it's|then|to|only|just"
    r"|rather)[,:]? )?(?:an? )?\Z",
    re.IGNORECASE,
)
# Another label, back to where its line, sentence, clause or cell begins.
_LABELLED = re.compile(
    r"(?:\A|[\n.:;,/|({–!?]"
    r"|(?<=\s)-) ?(?:[-•–+>] ?)?(?:\d{1,2}[.)] )?(?P<label>[^\W\d_\s(][^.:;=,!?\n"
    r"|({]{0,70}?) ?[\"']? ?[:=] ?[\"'(]?\Z"
)
_OTHER = word_set(
    "confidence confident certainty uncertainty sure probability likelihood odds number count"
    " amount frequency quantity redundancy previous prior original initial first second third old"
    " earlier"
    " other another human humans expert experts annotator annotators user users author reference"
    " baseline gold expected average mean median sum total maximum max minimum min highest lowest"
    " best worst possible top bottom threshold passing cutoff target difficulty length word words"
    " sentence sentences time age year page chapter section paragraph step item question index rank"
    " position weight penalty deduction bonus temperature version id bleu rouge bertscore meteor f1"
    " iq credit test match game error mistake typo option example criterion scale sample duration"
    " deviation variance distance percentage reading next last wrong mention duplication agreement"
    " iteration turn line token character attention population edition dimension"
)
_ONLY_LABELS = word_set("note nota voto cijfer wertung mark")
_PLAIN = frozenset(("response", "output", "result", "reply"))
_FINAL = frozenset(("final", "overall"))
_NEUTRAL = word_set(
    "final overall my the a an this that its your our of with at is to as and so single numerical"
    " numeric integer likert perfect full high higher low lower good solid strong fair whole same"
    " general generous decent middling moderate middle respectable therefore thus hence resulting"
    " in earning giving given receives receive deserves deserve earns gets warrants merits assign"
    " assigned give award awarded warranting meriting deserving leading leads results result for"
    " corresponding following respective summary response output text clear just about quality"
    " rating score scoring only here is: it hence, so, numeric overall: evaluation"
)
_UNIT = r"(?: ?-?(?:stars?|points?|pts?)\b| ?[⭐★])?"
_HEDGED = re.compile(
    rf"{_UNIT}(?:,? ?\(?(?:or|to|–|-|/|~|maybe|perhaps|possibly|verging on|leaning|bordering on"
    rf"|close to"
    rf"|even|nearly|almost|plus|minus|times|[+*×x÷=&|])(?: [a-z]+){{0,3}}? ?{_ANY}(?! ?[a-z]{{2}})"
    rf"|,? ?\(?(?:and|but|,|could(?: also)? be"
    rf"|might be)(?: [a-z]+){{0,4}}? ?{_ANY} ?(?:[.,;!)\n]|\Z|(?-i:[A-Z]))"
    rf"| for [^.!?\n]{{1,30}}?(?:,|;| and) (?:an? )?{_ANY} for\b"
    rf"|(?: (?:for|in|on) (?:the |its )?[a-z]+)?(?:,| and|, and|;) {_ANY} (?:for|in|on) [a-z]"
    r"| (?:and a|½|1/2|a) half| (?:or|and) (?:so|higher|above|lower|below|less|more|up|under"
    r"|over|better|worse)\b"
    r"|,? at (?:most|least)\b| (?:plus|minus)\b| ?[+~?%°]|,? ?(?:maybe|perhaps|possibly|probably)\b"
    rf"| (?:in|on|of|times|by|x|over) {_ANY})",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"['\"]? (?:is|was|would|seems?|feels?|might|may|could|can|cannot|isn't|wasn't|wouldn't|doesn't"
    r"|can't|does|has|looks|sounds)\b[^.!?;\n]{0,40}?(?:\bnot\b|n't\b|\bnever\b|cannot|\btoo \w+"
    r"|\bunwarranted|\bundeserved|\bunjustified|\bwrong|\bincorrect|\bunfair|\bimpossible"
    r"|\bhard to)",
    re.IGNORECASE,
)
_MEANS = re.compile(
    r"(?: ?\([^()\n]{0,40}\))? (?:would (?!be (?:appropriate|fair|right|suitable|reasonable|fitting"
    r"|my|warranted|justified|given|accurate))|means?\b|indicates?\b|requires?\b|needs?\b"
    r"|represents?\b"
    r"|denotes?\b|signif|stands\b|corresponds?\b|is (?:for|reserved|used|when|given (?:to|when"
    r"|if))\b"
    r"|being\b|meaning\b|if\b|when\b|unless\b|= ?[a-z])",
    re.IGNORECASE,
)
_ENDS = re.compile(
    rf"{_UNIT}[\"']?(?: ?\Z| ?\n|[.!…]{{1,3}}(?=[\s\"')]|\Z)|[,;:)](?=\s|\Z)| ?[([|]| [–-](?= ?\D)"
    rf"|- (?=\D)"
    r"| (?:for|because|since|as|on|due|given|in|based|with|overall|and|but|from|here|according"
    r"|which"
    r"|indicating|meaning|reflecting|suggesting|to reflect|to this|rating|score|seems"
    r"|considering"
    r"|is (?:appropriate|given|fair|assigned|warranted|deserved|justified|awarded|suitable"
    r"|reasonable)"
    r"|would be (?:appropriate|fair|right|suitable|reasonable|fitting|warranted|justified"
    r"|accurate))\b)",
    re.IGNORECASE,
)
# A second number in the same breath: "3 I think, or 4", "5 (draft), 3 (final)".
_RIVAL = re.compile(
    r"[^.!?\n]{0,40}?(?:\bor\b|\balternatively\b|[,;(/]|→|->)[:,]? ?(?:(?:maybe|perhaps|even|just|a"
    rf"|rather|finally|then|now) ){{0,2}}{_ANY} ?(?:\Z|[\n.,;!()](?!\d))",
    re.IGNORECASE,
)
# "A perfect score is 5" tells of the scale.
_ANY_SCORE = re.compile(
    rf"\b(?:an?|any|every|each|no) (?:[a-z]+ ){{0,3}}{_NOUN} (?:is|equals) \Z", re.IGNORECASE
)
_JOKED = re.compile(r" ?\(\?|, right\b|, said\b|.{0,3}\bjok", re.IGNORECASE)
_DEDUCTED = re.compile(
    rf"\b(?:minus|deduct\w*|subtract\w*|docked|take off|taking off) (?:\w+ ){{0,2}}{_ANY}\b",
    re.IGNORECASE,
)
_SCALES = re.compile(
    rf"\((?:out )?of ({_ANY})\)|\bscale (?:of|from|is)? ?(?:{_ANY} ?(?:to|-|–) ?)?({_ANY})\b"
    rf"|\b({_ANY})-point scale\b",
    re.IGNORECASE,
)
_NEXT = re.compile(
    r" (?:The|This|That|It|Its|I|In|Summary|Response|Reasons?|Reasoning|Explanation|Rationale"
    r"|Justification|Overall|While|Although|Because|Since|Here|There|Comments?|Feedback|Relevance"
    r"|Although|However|Based|As)\b"
)
_REFERENCE = re.compile(
    r"\b(?:(?:see|cf|eqs?|figs?|refs?|no)\.?|notes?|items?|criteri(?:on|a)|rules?|sections?|points?"
    r"|steps?|pages?|tables?|examples?|lines?|paragraphs?|sentences?|facts?|reasons?) \(\Z",
    re.IGNORECASE,
)
_SHORT = re.compile(
    r"\b(?:refs?|cf|eqs?|no|nr|vol|figs?|secs?|ch|pp?|arts?|st|dr|mrs?|e\.g|i\.e|vs|approx"
    r"|ca)\. \Z",
    re.I,
)
_LINE_END = re.compile(rf"{_UNIT}[\"')]{{0,2}}[.!]?[\"')]{{0,2}}(?:\Z|\n)", re.IGNORECASE)
_FIRST = re.compile(
    r"[\"']?(?: ?(?:stars?|points?)\b(?=[.,:;!)\n(–-]| [–(-])|[.:;,](?=[ \n])|\)(?=\n"
    r"| (?-i:[A-Z]))| ?[–-] (?=\D)"
    r"| ?\((?=\D)|\n)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[-•–+]{0,2} ?(?:\d{1,2}[.)] )?[\"'(]{0,2}\Z")
_GLUED_LEFT = frozenset("_.,/€$£¥#%+~≈<≥≤^×÷±'-–&@\\")
_OVER = re.compile(
    rf" {{0,2}}(?P<by>/|out of|of)(?: a)?(?: (?:possible|maximum|total"
    rf"|max)(?: of)?)? ?(?P<most>{_ANY})(?:\.0+)?(?![\w%]|[./]\d)",
    re.IGNORECASE,
)
# The same said by both ends or by the best: "Score (0-10): 4", "Score: 4 (0-10)", "4 (10 is best)".
_RANGES = re.compile(
    rf"(?:(?<![^\W_]){_NOUN} ?\(|(?<![^\W_]){_NOUN} ?[:=] ?{_ANY} \((?:scale: ?)?)"
    rf"[01] ?(?:to|-|–) ?(?P<end>{_ANY})\)|\b[01] ?(?:to|-|–) ?(?P<last>{_ANY}) scale\b"
    rf"|\(max(?:imum)?:? ?(?P<most>{_ANY})\)|\((?P<best>{_ANY}) is (?:the )?(?:best|highest)\b",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\$?\\boxed ?\{([^{}\n]{0,40})\}\$?")
_KEYS = word_set(
    "score rating grade final_score final_rating overall overall_score overall_rating mark label"
    " judgement judgment verdict answer result total_rating"
)


# Longer ways to say "final score", "rating:" and nothing else.
_TOTAL = re.compile(r"\btotal (?=(?:score|rating)\b)", re.IGNORECASE)
_RESULT = re.compile(r"\[result\]:? ?(?=\d)", re.IGNORECASE)
_I_GIVE = re.compile(
    r"\b(score|rating) (?:that )?I(?:'d| would| will)? (?:give|assign|award)"
    r"(?: (?:it|this|(?:the|this) \w+))? (?=is\b)",
    re.IGNORECASE,
)
_ON_SCALE = re.compile(
    rf"\b(?:(?P<noun>score|rating) )?on a scale (?:of|from)? ?(?P<low>{_ANY}) ?(?:to|-|–) ?"
    rf"(?P<high>{_ANY}) ?:(?= ?\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A number that a reply may give as its rating.

    `part` names what it is the rating of, where that is said; `final` marks the word of the whole.
    """

    value: float
    part: str | None = None
    final: bool = False
    unknown: bool = False


def parse_rating(
    text: str,
    scale: Sequence[int],
    *,
    letters: Mapping[str, int] | None = None,
    names: Collection[str] = (),
) -> int:
    """Return the one rating `text` gives on `scale`; NoScoreError keeps a short form of the reply.

    `letters` ({"A": 1, ...}) is for prompts that offer lettered options; without it a letter is no
    rating. `names` are further labels that the rating may have: the dimension's own.
    """
    bare = text.strip()
    if bare.isascii() and bare.isdigit() and len(bare) < 7 and int(bare) in scale:
        return int(bare)
    number = _number(text, scale, letters, names)
    if number not in scale:
        raise NoScoreError(
            f"{number:g} is not on the scale from {scale[0]} to {scale[-1]}: {shortened(text)}"
        )
    return int(number)


def parse_score(
    text: str,
    scale: Sequence[int],
    *,
    letters: Mapping[str, int] | None = None,
    names: Collection[str] = (),
) -> float:
    """Like `parse_rating`, but "3.5" counts, for prompts that never asked for integers."""
    number = _number(text, scale, letters, names)
    if not scale[0] <= number <= scale[-1]:
        raise NoScoreError(f"{number:g} is not from {scale[0]} to {scale[-1]}: {shortened(text)}")
    return number


def _number(
    text: str, scale: Sequence[int], letters: Mapping[str, int] | None, names: Collection[str]
) -> float:
    lettered: set[float] = set()
    if letters:
        lettered = {float(letters[choice]) for choice in choices_made(text, list(letters))}
    claims = _claims(text, scale, frozenset(name.lower().replace("_", " ") for name in names))
    parts = {claim.part for claim in claims if claim.part}
    if any(claim.final for claim in claims):
        claims = [claim for claim in claims if claim.final or not claim.part]
    elif len(parts) > 1 or any(claim.unknown for claim in claims):
        raise NoScoreError(
            f"a number of something else, {', '.join(sorted(parts))}, in {shortened(text)}"
        )
    values = lettered | {claim.value for claim in claims}
    if len(values) > 1:
        numbers = " and ".join(f"{value:g}" for value in sorted(values))
        raise NoScoreError(f"two ratings, {numbers}, in {shortened(text)}")
    if not values:
        raise NoScoreError(f"no rating from {scale[0]} to {scale[-1]} in {shortened(text)}")
    return values.pop()


def _plainly(text: str, scale: Sequence[int]) -> str:
    """The text with a few longer labels said shortly; a scale is dropped only where it is ours."""

    def ours(label: re.Match[str]) -> str:
        ends = label["low"], label["high"]
        known = ends == (str(scale[0]), str(scale[-1]))
        return f"{label['noun'] or 'rating'}:" if known else label.group()

    text = _I_GIVE.sub(r"\1 ", _RESULT.sub("\nRating: ", _TOTAL.sub("final ", text)))
    return _ON_SCALE.sub(ours, text)


def _claims(text: str, scale: Sequence[int], names: frozenset[str]) -> list[_Claim]:
    plain = _plainly(_BOXED.sub(r" \1 ", plain_lines(text)), scale)
    items, around = json_object(plain)
    reader = _Reader(around, scale, names, text)
    claims = reader.claims()
    if items is not None:
        claims += _json_claims(items, scale, names, text)
    lowered = reader.text.lower()
    if claims and _DEDUCTED.search(reader.text):
        raise NoScoreError(f"a rating that is reckoned in {shortened(text)}")
    if claims and reader.on_another_scale():
        raise NoScoreError(f"a rating on another scale in {shortened(text)}")
    if claims and (TAKEN_BACK.search(lowered) or REFUSED.search(lowered)):
        raise NoScoreError(f"a rating that is taken back or refused in {shortened(text)}")
    return claims


def _json_claims(
    items: Sequence[tuple[str, object]], scale: Sequence[int], names: frozenset[str], text: str
) -> list[_Claim]:
    """The rating of a JSON object: the value of a key that says so, or of its only number."""
    called: list[object] = [value for name, value in items if name in _KEYS or name in names]
    named = [
        (name, value) for name, value in items if re.fullmatch(r"\w+[_ ](?:score|rating)", name)
    ]
    if not called and len(named) == 1 and QUALITY.fullmatch(re.split("[_ ]", named[0][0])[0]):
        called = [named[0][1]]
    numbers = [v for _, v in items if isinstance(v, int | float) and not isinstance(v, bool)]
    if not called and len(numbers) == 1 and len(items) <= 2:
        name = next(name for name, value in items if value is numbers[0])
        called = list(numbers) if QUALITY.fullmatch(name) and name not in _OTHER else []
    claims = []
    for value in called:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise NoScoreError(f"no number where the rating belongs in {shortened(text)}")
        claims += (
            _Reader(plain_lines(value), scale, names, text).claims()
            if isinstance(value, str)
            else [_Claim(float(value))]
        )
    if called and not claims:
        raise NoScoreError(f"no number where the rating belongs in {shortened(text)}")
    return claims


@lru_cache(maxsize=64)
def _mention(low: int, high: int) -> re.Pattern[str]:
    """The scale itself, wherever a reply repeats it."""
    least, most = _spelt(low), _spelt(high)
    aside = r"(?: ?\([^()\n]{0,30}\))?"
    ends = rf"{least}{aside} ?(?:to|-|–) ?{most}{aside}"
    return re.compile(
        rf"\((?:[a-z ]{{0,20}}\b)?{ends}[^()\n]{{0,40}}\)|\b(?:scale|range)(?: of| from)? {ends}"
        rf"(?![\w.,]?\d)|\bfrom {ends}(?![\w.,]?\d)|\b{ends}(?:-point)? (?:likert )?scale\b"
        rf"|\bbetween {least} and {most}(?![\w.,]?\d)|\bout of {most}(?= ?:)"
        rf"|\((?:where |with )?{least} ?(?:=|:|is|being|meaning|-|–)[^()\n]{{0,80}}\b{most} ?"
        rf"(?:=|:|is|being|meaning|-|–)[^()\n]{{0,60}}\)",
        re.IGNORECASE,
    )


def _spelt(number: int) -> str:
    return f"(?:{number}|{WORDS[number]})" if 0 <= number < len(WORDS) else str(number)


def _value(token: str) -> float:
    word = token.lower()
    return float(WORDS.index(word)) if word in WORDS else float(token)


class _Reader:
    """Goes through a text's numbers, each with what stands around it."""

    def __init__(self, text: str, scale: Sequence[int], names: frozenset[str], reply: str) -> None:
        flat = re.sub(r"[{}\[\]]", " ", text)
        flat = re.sub(rf"([\"'])({_ANY}(?:/\d+)?)\1", r"\2", flat)
        flat = _mention(scale[0], scale[-1]).sub(" ", flat)
        if not any(map(str.islower, flat)):
            flat = flat.lower()
        self.text = "\n".join(" ".join(line.split()) for line in flat.splitlines()).strip("\n")
        self.top = float(scale[-1])
        self.names = names
        self.reply = reply

    def claims(self) -> list[_Claim]:
        claims = []
        done = 0
        for number in few(_NUMBER, self.text):
            if number.start() < done:
                continue
            over = _OVER.match(self.text, number.end())
            done = over.end() if over else 0
            claim = self._claim(number, over)
            if claim is not None:
                claims.append(claim)
        return claims

    def on_another_scale(self) -> bool:
        """Whether it speaks of a scale other than the one asked for, which is cut out before."""
        tops = [match[1] or match[2] or match[3] for match in _SCALES.finditer(self.text)]
        tops += [top for match in _RANGES.finditer(self.text) for top in match.groups() if top]
        return any(_value(top) != self.top for top in tops)

    def _claim(self, number: re.Match[str], over: re.Match[str] | None) -> _Claim | None:
        start, end = number.span()
        value = _value(number.group())
        digits = number.group()[0].isdigit()
        before = self.text[max(0, start - 120) : start]
        after = self.text[end : end + 120]
        if before.endswith("-") and (len(before) == 1 or before[-2] in " \n(:=["):
            before, value, start = before[:-1], -value, start - 1
        glued = self._glued(before, after) if digits else False
        above, before = self._above(before)
        if over:
            if _value(over["most"]) == self.top:
                after = self.text[over.end() : over.end() + 120]
            elif over["by"] != "of":
                glued = True
        context = self._context(above + before, digits=digits)
        if context is None:
            return self._standing(number, value, before, after, over, glued=glued, digits=digits)
        return self._settle(*context, value, start, end, after, glued=glued)

    @staticmethod
    def _above(before: str) -> tuple[str, str]:
        """What stands before in the same line; a line that ends in a colon labels the next."""
        lines = before.split("\n")
        if len(lines) > 1 and _BULLET.fullmatch(lines[-1]) and lines[-2].endswith((":", "=")):
            return lines[-2] + " ", ""
        return "", lines[-1]

    @staticmethod
    def _glued(before: str, after: str) -> bool:
        """Whether a number is part of something longer: a date, a range, an amount, a name."""
        left, right, then = before[-1:], after[:1], after[1:2]
        if left in {'"', "'"} and right == left:
            left, right, then = before[-2:-1], after[1:2], after[2:3]
        if left and (left.isalnum() or left in _GLUED_LEFT):
            return True
        if left == ">" and before[-2:-1] not in {"-", "="}:
            return True
        if left in {":", "="} and before[-2:-1].isdigit():
            return True
        if right and (right.isalnum() or right in "_%°+^~<>=*×÷½¼¾\\@"):
            return True
        return right in {"-", "–", ".", ",", ":", "'"} and then.isalnum()

    def _context(self, before: str, *, digits: bool) -> tuple[_Claim, str, str] | None:
        """What a number is called or given as: a claim without its value, its kind, its head.

        The head is what stands before in the sentence, with a word for the subject where the name
        is one by itself ("..., score: 4").
        """
        called = _CALLED.search(before)
        if called:
            claim, kind = self._called(called, before)
            head = sentence_before(before, called.start())
            if kind == "label" and claim.part and head.split():
                head = " ".join(head.split()[:-1]) + " "  # the part's name may be any word
            return claim, kind, f"{head}it" if kind in {"label", "bare"} else head
        labelled = _LABELLED.search(before)
        if labelled:
            head = sentence_before(before, labelled.start("label"))
            return *self._labelled(labelled["label"]), f"{head}it"
        given = _GIVEN.search(before)
        if (
            (given and _DIRECT.search(before))
            or _ISA.search(before)
            or re.search(r"\b(?:and|but|,) an? \Z|(?:\A|\n)an? \Z", before, re.IGNORECASE)
            or (digits and _SAYING.search(before))
        ):
            return _Claim(0.0), "given", sentence_before(before, len(before))
        return None

    def _called(self, called: re.Match[str], before: str) -> tuple[_Claim, str]:
        clause = re.split(r"[.!?;:,\n()|/–]", before[: called.start()])[-1]
        words = [word.strip("\"'#-⭐★").lower() for word in clause.split()[-4:]]
        words = [word for word in words if word]
        part = (called["part"] or "").lower()
        link = called["link"]
        labelled = bool(re.search(r"[:=>→]", link))
        near = [*words[-3:], *part.split()] if not labelled else [*words, *part.split()]
        noun = called["noun"].lower()
        if (noun in {"scores", "ratings"} and labelled) or (noun in _ONLY_LABELS and not labelled):
            return _Claim(0.0, "scores", unknown=True), "label"
        if any(word in _OTHER or (labelled and any(c.isdigit() for c in word)) for word in near):
            return _Claim(0.0, " ".join(near), unknown=True), "other"
        final = bool(_FINAL & set(words[-3:])) and "sub" not in words
        name = (
            words[-1]
            if words and words[-1] not in _NEUTRAL and (labelled or QUALITY.fullmatch(words[-1]))
            else None
        )
        if part and not final:
            name = name or (
                part.split()[-1] if not re.search(r"\b(?:this|the|it)\b", part) else None
            )
        own = name is None or name in self.names
        if name and not own and labelled and not final and not QUALITY.fullmatch(name):
            return _Claim(0.0, name, unknown=True), "label"
        kind = "label" if labelled else "bare" if link == " " else "said"
        return _Claim(0.0, None if own or final else name, final=final), kind

    def _labelled(self, label: str) -> tuple[_Claim, str]:
        words = [word.strip("\"'()-").lower() for word in label.split()]
        words = [word for word in words if word]
        name = " ".join(words)
        if name in _PLAIN:
            return _Claim(0.0), "named"
        if name in self.names:
            return _Claim(0.0, name), "named"
        counted = any(
            word in _OTHER
            or any(sign.isdigit() for sign in word)
            or (
                word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and len(word) > 3
            )
            for word in words
        )
        if counted or not words:
            return _Claim(0.0, name, unknown=True), "other"
        final = words[0] in _FINAL
        if len(words) <= 4 and QUALITY.fullmatch(words[-1]):
            return _Claim(0.0, None if final else name, final=final), "named"
        return _Claim(0.0, name, unknown=True), "named"

    def _settle(
        self, claim: _Claim, kind: str, head: str, value: float, start: int, end: int, after: str,
        *, glued: bool,
    ) -> _Claim | None:  # fmt: skip
        """Give a number in a rating's place its value, unless it says something else there."""
        if kind == "other":
            if glued or not _ENDS.match(after):
                return None
            raise self._unclear(f"{claim.part or 'another quantity'} is no rating")
        if kind in {"said", "bare", "given"} and _MEANS.match(after):
            return None
        ends = bool(_ENDS.match(after)) or (kind in {"label", "named"} and bool(_NEXT.match(after)))
        # A number within prose: "the score of one match", "a score of 3-1", "gives 3 reasons".
        if kind != "label" and ((re.match(r" ?-?[a-zß-ÿ]{2}", after) and not ends) or glued):
            if glued and kind == "given" and after[:1] == "/":
                raise self._unclear("a number that is no plain rating")
            if not _HEDGED.match(after) or glued:
                return None
        amount = re.search(r"\b(?:an?|of|is|it|as|at) \Z", self.text[max(0, start - 4) : start])
        may_number = (kind != "label" or value == 1) and not amount
        if may_number and self._listed(value, after, labels=False):
            return None
        if glued or not ends or _HEDGED.match(after) or _REJECTED.match(after):
            raise self._unclear("a number that is no plain rating")
        if self._reckoned(start, end):
            raise self._unclear("a number that is reckoned")
        if quoted(self.text, start, end) or doubted(head):
            raise self._unclear("a number that is negated, supposed or quoted")
        if not own_words(head) or CORRECTED.search(self.text[max(0, start - 60) : start]):
            raise self._unclear("a number that may be another's")
        if (
            UNDONE.match(after)
            or _RIVAL.match(after)
            or (kind == "said" and _ANY_SCORE.search(self.text[:start]))
        ):
            raise self._unclear("a number that is no plain rating")
        return _Claim(value, claim.part, claim.final, claim.unknown)

    def _standing(
        self, number: re.Match[str], value: float, before: str, after: str,
        over: re.Match[str] | None, *, glued: bool, digits: bool,
    ) -> _Claim | None:  # fmt: skip
        """A number that nothing names: it counts where it stands alone, and as "4 out of 5"."""
        start, end = number.span()
        first = bool(_BULLET.fullmatch(before))
        top = over is not None and _value(over["most"]) == self.top and over["by"] != "of"
        opens = first or (re.search(r"[.!?][\"')]? \Z", before) and not _SHORT.search(before))
        alone = opens and (_LINE_END.match(after) or re.match(r"[.!] (?=[A-Z])", after))
        leads = first and (_FIRST.match(after) or (not digits and re.match(r" stars?\b", after)))
        if leads and not digits and not re.match(r" ?(?:stars?\b|points?\b|[.] | [–-] |\n)", after):
            leads = None
        if (leads or alone) and self._listed(value, after):
            return None
        noted = (
            re.search(r"[\w.!] \(\Z", before)
            and not _REFERENCE.search(before)
            and re.match(r"\)[.!]?(?:\Z|\n)", after)
            and len(self.text.split()) <= 40
        ) or (re.search(r" (?:is|seems|was)(?: [a-z]+){1,3} \(\Z", before) and after[:3] == "). ")
        said = top and _ENDS.match(after) and not re.match(r" (?:and|with|as) ", after)
        if top and _HEDGED.match(after):
            raise self._unclear("a number that is no plain rating")
        if not (alone or leads or noted or said):
            if (
                first
                and not glued
                and re.match(r"(?: ?(?:-|–|/|or|to|,) ?\d| ?\?)|(?-i: [A-Z])", after, re.I)
            ):
                raise self._unclear("a number that is no plain rating")
            return None
        if glued or _HEDGED.match(after) or _REJECTED.match(after) or self._reckoned(start, end):
            raise self._unclear("a number that is no plain rating")
        undone = UNDONE.match(after) if not leads else _JOKED.match(after)
        if (
            undone
            or _RIVAL.match(after)
            or (re.search(r"\?\) ?\Z|\(\Z", before) and self._enumerated(start))
        ):
            raise self._unclear("a number that is no plain rating")
        sentence = sentence_before(self.text, start)
        if quoted(self.text, start, end) or (said and not alone and doubted(sentence)):
            raise self._unclear("a number that is negated, supposed or quoted")
        heading = self._heading(start)
        if alone and first and heading:
            return self._headed(heading, value)
        return _Claim(value)

    def _heading(self, start: int) -> str:
        """The line above, where it is a few words that end no sentence."""
        line_start = self.text.rfind("\n", 0, start)
        if line_start < 0:
            return ""
        above = self.text[:line_start].rpartition("\n")[2]
        few = len(above.split()) <= 4 and not re.search(r"[.!?,;]\Z|\d", above)
        return above if few else ""

    def _headed(self, heading: str, value: float) -> _Claim:
        claim, kind = self._labelled(heading)
        if kind == "other":
            raise self._unclear(f"{claim.part} is no rating")
        return _Claim(value)

    def _enumerated(self, start: int) -> bool:
        """Whether other numbers in parentheses stand beside: "(5) excellent (4) good"."""
        return bool(re.search(r"\(\d{1,3}\) ", self.text[start + 2 :])) or "?)" in self.text[:start]

    def _listed(self, value: float, after: str, *, labels: bool = True) -> bool:
        """Whether a first number begins a list, or numbers a label: "1. Coherence: 2"."""
        if not re.match(r"[.)] \S", after):
            return False
        line = after[1:].split("\n")[0].strip()
        if labels and re.fullmatch(
            rf"[^\W\d_][^:=\n]{{0,60}}[:=] ?\(?{_ANY}\)?(?:/\d+)?[.!]?", line, re.IGNORECASE
        ):
            return True
        beside = r"(?:\A|\n|[.!?;,:•-] ){}[.)] "
        return any(
            re.search(beside.format(f"{number:g}"), self.text) for number in (value - 1, value + 1)
        )

    def _reckoned(self, start: int, end: int) -> bool:
        line_start = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", end)
        line = self.text[max(line_start, start - 60) : stop if 0 <= stop < end + 60 else end + 60]
        return bool(
            re.search(
                r"\d ?[+=×÷*] ?\d|\d (?:plus|minus|times|x) \d|\d [–-] \d+(?! ?[a-z]{3})|[+] ?\d",
                line,
            )
        )

    def _unclear(self, why: str) -> NoScoreError:
        return NoScoreError(f"{why}: {shortened(self.reply)}")
