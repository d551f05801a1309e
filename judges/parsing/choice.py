"""Find the one choice a reply makes among a few words or letters, and refuse any other reply.

Every mention of a choice is looked at. One that is called the answer ("Answer: B", "[[A]]",
"B: Summary 2 is ...", alone on its line), better, best or preferred counts for its choice; one that
is called worse, not better or not preferred counts against it. A reply that counts for one choice
alone, and not against it, makes that choice. One that is negated, asked, supposed, quoted or taken
back where it would count makes none: such a reply fails, and is kept.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from judges.judgement import NoScoreError

KEPT = 160
# What is read at most, white space counted once: a longer reply is no answer to our question.
LONGEST = 20_000
MOST_MENTIONS = 300  # numbers or letters that may be the answer: more are no answer either
_TAG = re.compile(r"<([A-Za-z_]{1,30})>([^<>\n]{0,60})</\1>")
_STYLE = re.compile(r"</?(?:b|i|u|p|br|em|strong|span|div|li|ul|ol|center|code|h\d) ?/?>", re.I)
_FENCE = re.compile(r"```[A-Za-z]{0,10}\n?")


def shortened(text: str) -> str:
    """Quote a reply for a message: its two ends where it is long, since the score is at an end."""
    if len(text) > 4 * LONGEST:
        text = f"{text[:LONGEST]} ... {text[-LONGEST:]}"
    whole = " ".join(text.split())
    if len(whole) <= KEPT:
        return repr(whole)
    half = KEPT // 2
    return repr(f"{whole[:half]} ... {whole[-half:]}")


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


class _Folding(dict[int, str]):
    """Full-width forms, digits of other scripts, quotes, dashes and spaces, each as one sign."""

    def __missing__(self, code: int) -> str:
        self[code] = sign = _folded(chr(code))
        return sign


def _folded(sign: str) -> str:
    kind = unicodedata.category(sign)
    if kind == "Nd":
        return str(unicodedata.decimal(sign))
    if kind == "Cf":  # zero-width signs
        return ""
    if kind == "Zs":
        return " "
    if "\uff01" <= sign <= "\uff5e":
        return chr(ord(sign) - 0xFEE0)
    return _SIGNS.get(sign, sign)


_SIGNS = {
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("−‐‑", "-"),
    **dict.fromkeys("‒—―", "–"),
    "。": ". ",
    "、": ", ",
}
_FOLDING = _Folding({code: chr(code) for code in range(128)})
# A backslash before markup, and the markup itself: "**4**", "`4`", "_4_", "## 4".
_MARKUP = re.compile(
    r"\\(?=[*_`#\[\]])|[*`]|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|^#{1,6} ", re.M
)


_TURN_END = re.compile(r"(?:</s>|<\|[a-z_]{1,20}\|>)\Z")


def plain_lines(text: str) -> str:
    """A reply without markup, blank lines and double spaces; NoScoreError where it is too long."""
    # A token that ends a turn, left in by the endpoint, is no word of the judge's.
    text = _TURN_END.sub("", text.rstrip())
    lines = (" ".join(line.split()) for line in text.splitlines())
    whole = "\n".join(line for line in lines if line)
    if len(whole) > LONGEST:
        raise NoScoreError(
            f"{len(whole):,} characters, of which at most {LONGEST:,} are read: {shortened(text)}"
        )
    folded = _FENCE.sub("\n", whole).translate(_FOLDING)
    styled = _STYLE.sub(" ", folded)
    marked = _TAG.sub(r"\n\1: \2\n", _MARKUP.sub("", styled))
    return "\n".join(filter(None, map(str.strip, marked.splitlines())))


def json_object(text: str) -> tuple[list[tuple[str, object]] | None, str]:
    """Split a reply into the items of the one JSON object in it, if any, and what stands around.

    Raises NoScoreError where the object names a key twice or is nested too deeply.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start or end - start > LONGEST:
        return None, text
    try:
        items = json.loads(text[start : end + 1], object_pairs_hook=list)
    except (ValueError, RecursionError):
        return None, text
    names = [str(name).strip().lower() for name, _ in items]
    if len(set(names)) < len(names):
        raise NoScoreError(f"a key stands twice in {shortened(text)}")
    around = f"{text[:start]}\n{text[end + 1 :]}"
    return list(zip(names, (value for _, value in items), strict=True)), around


# What stands between a negation or a supposition and the clause it does not reach.
_CLAUSE = re.compile(
    r", with(?= )|[,;:()–]|(?:^| )(?:so|but|and|thus|therefore|hence|because|since|yet|still"
    r"|however|although"
    r"|while|whereas|which|results?|resulting|leads?|leading|earning|earns|giving|making|receiving"
    r"|getting|scoring|warranting|meriting|deserving)(?= |$)"
)
_DEPENDENT = re.compile(
    r"\s*(?:and |or )?(?:even |also |ever |just |simply |truly |really |still |quite )*"
    r"(?:(?:give|rate|score|grade|award|assign|grant|call|say|make|prefer|choose|pick|select|go"
    r"|deem|consider|find|a|an)\b(?! of\b)|\Z)"
)
_DOUBTED = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|hardly|barely|scarcely|without|nowhere|far from|short of"
    r"|nothing|nobody|none|refuse[ds]?|hesitate|reluctant|fail(?:s|ed)? to|unable|impossible|stop"
    r"|if|unless|were|could|might|may|would (?:have|take|need|require)|needs?|should have"
    r"|could've|would've|had i|had it"
    r"|imagine|suppose|assum(?:e|ing)|tempted|inclined|going to|about to|want(?:ed|s)? to|almost"
    r"|nearly|close to|closer to|around|roughly|approximately|up to|less|fewer|more than|at least"
    r"|at most|higher|lower|above|below|under|between|instead|rather|than|avoid|whether|except"
    r"|others?|someone|somebody|some|anyone|people|critics|humans?|annotators?|raters?|users?"
    r"|readers?|authors?|experts?|you|they|initially|originally|first|previous(?:ly)?|earlier"
    r"|before|once|used to|perfect (?:summary|text|response|output|answer)|ideal|hypothetical\w*"
    r"|argue[ds]?|claim(?:s|ed)?|says|said|states?|stated|asks?|asked|tells|told|tell|instruct\w*"
    r"|demand\w*|request\w*|beg(?:s|ged)?|insist\w*|writes?|wrote|written|reads|quot\w+|prompt\w*"
    r"|rubric|criteri(?:on|a)|guidelines?|scale|reserve[ds]?"
    r"|(?:hard|difficult|tough) to (?:say|tell|argue|claim|see how)|doubt\w*|den(?:y|ies|ied)"
    r"|disagree\w*|wonder\w*|unsure|uncertain|dispute[ds]?"
    r"|question(?:s|ed|able)"
    r"|inject\w*|pretend\w*|joke|jok(?:es|ing)|example|e\.g|expect\w*|hop(?:e|ed|ing)|wish\w*)\b"
    r"|n't\b|n't\Z"
)
_UNMEANT = re.compile(
    r"\b(?:anything|nothing|all|every\w*) but\b|\b(?:consider(?:ed|ing)|thought (?:of|about)|of"
    r"|by|from|than"
    r"|without|against|avoid\w*|imagin\w*|regret\w*) (?:giving|making|getting|scoring|awarding)\b"
)
# What follows an answer in its sentence and takes it away again.
UNDONE = re.compile(
    r"[^.!?\n]{0,60}?(?:\bif (?!any)|\bwere\b|\bunless\b|\bsome say\b|\bsaid\b|\bis what i\b"
    r"|\bjok|\bkidding\b"
    r"|\bsarcas|\(\?\)|\bright ?\?|\bat best\b|\bbut (?:is|it is|it's|i won't|i will not|not"
    r"|only if)\b"
    r"|; it is not\b)",
    re.IGNORECASE,
)
_WOULD = re.compile(r"\b(?:would|could|might)\b|'d\b")
_SUPPOSED = re.compile(
    r"(?:\A|[,;:>–(] ?|\b(?:so|but|and),? )\W*(?:(?:but|and|so|even|only|perhaps|maybe),? )*"
    r"(?:if|unless|suppose|imagine|in case|(?:had|were|should) (?:it|the|this|that|they|i|there))\b"
)
# "The summary says: Rating: 5", "Summary B ends with: choose B", "For example, Rating: 5".
_REPORTED = re.compile(
    r"(?:\b(?:says?|said|writes?|wrote|states?|stated|reads|claims?|claimed|asks|asked|instructs"
    r"|instructed|demands?|demanded|tells (?:me|us|you)|(?:ends|begins|starts|closes) with"
    r"|contains|includes|quotes?) ?:|\b(?:for (?:example|instance)|example|e\.g\.) ?[,:])"
    r" ?(?:it)?\Z"
)
TAKEN_BACK = re.compile(
    r"\b(?:scratch that|on second thoughts?|on reflection|take (?:that|it) back|never ?mind"
    r"|(?:disregard|ignore) (?:that|my|the above)|i misspoke|my mistake|my bad|stand corrected"
    r"|let me (?:re(?:consider|vise|think|phrase|do|assess)|correct|change|think)|i (?:must"
    r"|should|need to|have to|want to)? ?"
    r"(?:reconsider|revise|correct|retract|change)|i changed? my mind|just kidding|i'm joking"
    r"|i lied|not really)\b"
    r"|(?:\A|(?<=[.!?,;:/–] )|(?<=\n))(?:no,? )?that(?:'s| is| was| seems)"
    r" (?:a bit |far |way |much )?(?:too (?:high|low|generous|harsh|strict|lenient|much)|wrong"
    r"|a mistake|not right)\b"
    r"|(?<=[.!?] )not[.!]?(?=\Z|\n)|\b(?:wait|hmm+|oops|sorry)\b ?[,.:!–]|\b(?:correction"
    r"|edit)\b ?[,:!–]"
)
REFUSED = re.compile(
    r"\bi(?:'m| am)? (?:cannot|can't|can not|could not|couldn't|won't|will not|refuse|decline"
    r"|unable"
    r"|not able)(?: to)? (?:rate|score|judge|evaluate|assess|assign|provide|give|grade|decide"
    r"|choose"
    r"|pick|determine|compare|say|tell|prefer|select|answer|help|comply)\b|\bn/a\b|\bi give up\b"
    r"|\bno (?:rating|score)\b"
    r"|\b(?:rating|score|answer|verdict|preferred|choice) ?[:=] ?(?:unknown|none|null|nan|unclear"
    r"|not (?:given|rated|sure|applicable)|undecided|tie|unsure|undefined|-{1,3}|\?)(?!\w)"
)


def doubted(before: str) -> bool:
    """Whether what stands before a claim, in its sentence, negates, supposes or reports it."""
    sentence = before.lower()
    supposed = _SUPPOSED.search(sentence)
    if supposed and (not supposed.start() or _WOULD.search(sentence, supposed.end())):
        return True
    if _UNMEANT.search(sentence) or _REPORTED.search(sentence):
        return True
    clause = sentence
    cuts = list(_CLAUSE.finditer(sentence))
    # A bare verb belongs to an earlier clause: "I would not, in all fairness, give it a 5".
    if cuts and (
        cuts[-1].group().strip() in _RESULTS or not _DEPENDENT.match(sentence, cuts[-1].end())
    ):
        clause = sentence[cuts[-1].end() :]
    return bool(_DOUBTED.search(clause))


# What a judge's own sentence is made of where it gives its answer. Another word may be another
# subject ("GPT-4 gives it a 5", "plan B is better"), and the answer somebody else's.
OWN = word_set(
    "i i'd i'll i'm i've we we'd my our me it it's its this that these the a an here is was be"
    " are as"
    " at of for on in to with and so thus therefore hence overall finally then also would will"
    " should"
    " must do have has been being give gives given giving gave get gets got getting make makes"
    " making"
    " award awards awarded assign assigns assigned deserve deserves deserved deserving earn earns"
    " earned earning receive receives received receiving merit merits merited warrant warrants"
    " warranted rate rates rated rating score scores scored scoring grade graded mark marked"
    " evaluate"
    " evaluated assess assessed judge judged judgement say go choose pick select settle call find"
    " think believe feel consider considered conclude prefer preferred preference final single"
    " summary response output text answer reply dialogue conversation translation story essay"
    " candidate version option assistant both quality level based above analysis evaluation"
    " assessment verdict decision choice label result criteria criterion provided considering"
    " everything all account reasons reason clear clearly definitely certainly solid strong good"
    " fair"
    " decent perfect full high low higher lower moderate relatively quite very rather pretty fairly"
    " just only simply still now resulting leading results leads which accordingly consequently"
    " according personally however because since while but follows following whole general"
    " generally"
    " respective corresponding numerical numeric integer likert sure okay opinion view from by"
    " terms that's there's appropriate"
    " winner best conclusion selection pick between comparing comparison yes no ok shorter both"
    " either"
    " these reflecting indicating summary's response's output's text's answer's final: respectfully"
)
QUALITY = re.compile(
    r"\w{3,}ness|coheren(?:ce|cy|t)|consisten(?:cy|t)|fluen(?:cy|t)|relevan(?:ce|cy|t)|engaging"
    r"|engagement"
    r"|grounded|natural|understandab(?:ility|le)|informati(?:ve|vity)|interesting|quality"
    r"|factual(?:ity)?"
    r"|safety|clarity|readability|accura(?:cy|te)|creativity|depth|details?|overall|preference"
    r"|specificity|humou?r|empathy|likability|grammar(?:icality)?|tone|style|toxicity|coverage"
    r"|adequacy"
    r"|fidelity|plausibility|originality|novelty|complexity|simplicity|diversity|formality"
    r"|sentiment"
    r"|similarity|logic|organi[sz]ation|structure|concision|concise|professionalism|attributable"
    r"|attribution|preservation|sufficiency|validity|alignment|salience|faithful|helpful|usability"
    r"|truth|honesty|flow|focus|impact|persuasion|instruction[ -]following|precision|recall"
    r"|language"
)


def own_words(head: str, others: frozenset[str] = frozenset()) -> bool:
    """Whether the clause that an answer stands in is the judge's own, word for word."""
    head = head.lower()
    cuts = list(_CLAUSE.finditer(head))
    clause = head[cuts[-1].end() :] if cuts else head
    words = [word.strip("\"'-.>•+!?") for word in clause.split()]
    words = [word for word in words if word]
    result = bool(cuts) and cuts[-1].group().strip() in _RESULTS
    if words[:1] == ["to"] and not result:
        return False
    if not all(word in OWN | others or QUALITY.fullmatch(word) for word in words):
        return False
    if cuts and cuts[-1].group() == ":":  # "Evaluation: Score: 4", but not "It ends with: Score: 4"
        return own_words(head[: cuts[-1].start()], others)
    return True


_RESULTS = word_set(
    "so thus therefore hence but yet result results resulting lead leads leading earning earns"
    " giving making receiving getting scoring warranting meriting deserving ;"
) | {", with"}


def sentence_before(text: str, place: int, most: int = 160) -> str:
    """What stands before a place, in its sentence and its line."""
    before = text[max(0, place - most) : place]
    return re.split(r"[.!?][\"')]{0,2}(?=\s)|\n", before)[-1]


def quoted(text: str, start: int, end: int) -> bool:
    """Whether a place stands within quotation marks that open and close around more than it."""
    line_start = text.rfind("\n", max(0, start - 2000), start) + 1
    before = text[max(line_start, start - 2000) : start]
    stop = text.find("\n", end, end + 2000)
    after = text[end : stop if stop >= 0 else end + 2000]
    if before.count('"') % 2 and '"' in after:
        return True
    opened = re.search(r"(?:^|[\s(:])'(?=\S)[^']*\Z", before)
    if opened and re.search(r"(?:\A|\S)'(?:\W|\Z)", after):
        return True
    return bool(re.search(r"(?:^|[\w:,.] ?|- )> ", before))


_NOUN = r"(?:output|response|summary|answer|option|assistant|candidate|text|reply|version|model)"
_KEYS = word_set(
    "preferred preference winner choice answer verdict better best decision selected selection"
    " final_answer final_verdict better_summary better_response better_output prediction"
)
_LABEL = (
    r"(?:preferred|preference|answer|choice|verdict|winner|decision|better|best|more helpful"
    r"|conclusion|selection|pick|evaluation|judge?ment|result|output|rating|score)"
    r"(?: (?:summary|response|output|answer|option|one|candidate|reply|choice|version"
    r"|assistant|model|text|system))?"
)
# A label counts where a sentence, a line or a clause begins with it.
_LABELLED = re.compile(
    r"(?:\A|[\n.!?;:,|(–-] ?|\b(?:so|therefore|thus|hence|and|that|think|believe|say) )"
    r"(?:(?:so|therefore|thus|hence|overall|then|in conclusion|finally|and|to conclude),? )?"
    r"(?:(?:the|my|your|our|i choose the) )?(?:(?:final|overall|clear|clearly|a) )*"
    rf"{_LABEL} ?(?:\((?:a|b|[^()\n]{{0,20}})\) ?)?(?:[:=]|[-=]>|→| –| -| (?:is|would be"
    rf"|has to be|must be)(?: clearly| therefore| thus| definitely)?:?)"
    r" ?[\"'(\[]{0,3} ?(?:the )?\Z",
    re.IGNORECASE,
)
_PREFER = re.compile(
    r"\b(?:prefer|(?:i|i'd|i'll|we|my)\b[^.!?,;\n]{0,30} (?:choose|chose|pick|select"
    r"|go(?:ing)? with"
    r"|vote for|opt for|favou?r|settle on)) ?(?:the )?\Z",
    re.IGNORECASE,
)
CORRECTED = re.compile(
    r"\b(?:actually|wait|i mean|sorry|correction|instead|rather|make (?:it|that)"
    r"|changed? (?:\w+ ){0,2}to"
    r"|revised? (?:\w+ ){0,2}to)[,:]? (?:an? )?\Z",
    re.IGNORECASE,
)
_SAYING = re.compile(
    r"(?:\A|[\n.!?;,/:(–] ?)(?:(?:so|thus|therefore|hence|overall|finally|yes|no|actually|wait"
    r"|sorry"
    r"|correction|instead|rather|i mean|i'd say|i say|i would say|make (?:it|that)|my bad|ok|okay"
    r"|in conclusion|in short|clearly|definitely)[,:]? )+\Z",
    re.IGNORECASE,
)
_DEGREE = (
    r"(?:(?:(?!nearly|hardly|barely|scarcely|only|partly|partially|allegedly|supposedly|reportedly"
    r"|possibly|potentially|arguably|seemingly|apparently)\w+ly|the|a|much|slightly|still|far"
    r"|by far|overall|also|therefore|thus|a bit|a little"
    r"|somewhat|even|likely) ){0,4}"
)
_IS = r" (?:is|was|would be|seems|appears|looks|has to be|must be|remains|comes out|does) "
_BETTER = re.compile(
    rf"(?:{_IS}{_DEGREE}(?:better|best|preferred|preferable|superior|winner|more helpful|stronger"
    r"|(?:better|best|preferred|superior|stronger) (?:one|choice|option|output|response|summary"
    r"|answer))"
    r"(?P<rest>[^.!?;\n]{0,60})"
    r"| wins\b| is (?:my|the) (?:choice|preference|pick|winner|answer)\b"
    r"| ?(?:[:=]|–|-) (?:clearly |much |slightly )?(?:better|best|winner|preferred)\b)",
    re.IGNORECASE,
)
_WORSE = re.compile(
    rf"(?:{_IS}{_DEGREE}(?:worse|worst|inferior|weaker|weakest|less (?:helpful|preferred"
    rf"|preferable))"
    r"| (?:isn't|wasn't|is not|was not|is never|cannot be|can't be|would not be|wouldn't be|is no"
    r"|is hardly|is nowhere)\b[^.!?;,\n]{0,40}\b(?:better|best|preferred|preferable|superior"
    r"|winner|more helpful|(?:the|my) (?:answer|choice))\b| (?:does not|doesn't|cannot|can't) win\b"
    r"| loses\b| ?(?:[:=]|–|-) ?(?:it(?:'s| is) |is |this is |clearly |much |slightly |far "
    r"|a bit )*"
    r"(?:worse|worst|weaker|inferior|loser|bad|poor|no\b|not\b|wrong|incorrect|lacks|fails|rejected"
    r"|less|misses|omits|terrible|better than nothing|second)"
    r"| ?(?:[:=]|–|-) ?(?:good|fine|okay|ok|short|long|dull|clear|fair|decent|nice)\b ?[.,;\n])",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"[\])\"']{0,3}(?:[.!?,;:/]|\Z|\n| ?\(| [–-]|[–-] | (?:because|since|for|over|or|and|as it"
    r"|as they)\b"
    r"| (?=[A-Z]))"
)
# "better at one thing", "better if", "better?" are no verdicts.
_ONLY = re.compile(
    r" ?(?:at |in (?!every|all|my|terms|general|this|both|the end|overall)|if |when "
    r"|with (?:respect|regard)"
    r"|only |on (?!every|all|most|balance|both|average|the whole)|avoided|ignored|left "
    r"|for (?!the |this|its|these|several|two|all|both|being"
    r"|following|me\b|that)|until |unless |than (?:nothing"
    r"|average|most)"
    r"|written|organi[sz]ed|structured|known|off|suited|,? or\b|,? and\b|as (?:far|regards))",
    re.IGNORECASE,
)
_COMPARING = word_set("better best more most helpful one ones other than two favor favour vote")
# "For experts, A is better": of one part, and not of the whole.
_PARTLY = re.compile(
    r"\W*(?:(?:but|and|so|however),? )?(?:for (?!th(?:is|ese|ose|at) reason|all these)"
    r"|in (?!conclusion|summary"
    r"|my |short|general|the end|this case|contrast|comparison|light|fact|sum|total"
    r"|terms of (?:the|overall))"
    r"|at (?!the end)|on (?!the other|balance|the whole|the one)|as (?:for|to|far)|regarding"
    r"|when it comes|with re(?:spect|gard))",
    re.IGNORECASE,
)
_BULLETED = re.compile(r"(?:\A|\n|[.;,] )\Z")
_OTHERS = (
    r"(?: ?\(?[/&,>|<=~+]+ ?|[,.]{0,3} (?:or|and|and/or|then|and also|or maybe|as well as|nor|vs\.?"
    r"|versus|equals|ties with) | ?\((?:or|and) )"
)
_TIED = re.compile(
    r"\b(?:it(?:'s| is) a (?:tie|draw)|i(?:'d| would)? call it a (?:tie|draw)|neither is better"
    r"|both (?:are|were) (?:\w+ )?(?:equally|the same|equal)|equally (?:good|bad)|no clear winner"
    r"|(?:cannot|can't|could not) (?:decide|choose|say|tell)|either (?:one|is fine|would do)"
    r"|a toss-?up)\b",
    re.IGNORECASE,
)


def parse_choice(text: str, choices: Sequence[str]) -> str:
    """Return the one choice `text` makes; NoScoreError keeps a short form of the reply.

    A tie counts only where `choices` has a word for it.
    """
    made = choices_made(text, choices)
    if len(made) > 1:
        raise NoScoreError(f"two choices, {' and '.join(sorted(made))}, in {shortened(text)}")
    if not made:
        raise NoScoreError(f"none of {', '.join(choices)} chosen in {shortened(text)}")
    return made.pop()


def choices_made(text: str, choices: Sequence[str]) -> set[str]:
    """Every choice that `text` makes; NoScoreError where one is negated, quoted or taken back."""
    items, around = json_object(plain_lines(text))
    # A letter in quotes behind a label is its value, and nobody's words.
    lone = "|".join(re.escape(choice) for choice in choices)
    around = re.sub(rf"(?<=[:=] )[\"']({lone})[\"'](?=[.,;]?(?:\Z|\s))", r"\1", around)
    made: set[str] = set()
    for name, value in items or ():
        if name in _KEYS:
            made |= {parse_choice(str(value), choices)}
    plain = re.sub(r"(?<=\w)'s\b", "", around) if items else around
    against: set[str] = set()
    by_name = {choice.lower(): choice for choice in choices}
    described: set[str] = set()
    begun: set[str] = set()
    for mention in few(_mentions(tuple(choices)), plain):
        name = by_name[next(group for group in mention.groups() if group).lower()]
        if re.match(r" [A-Z]", plain[mention.end() :][:2]) and re.search(
            r"(?:\A|\n)\Z", plain[: mention.start()][-1:]
        ):
            begun.add(name)
        counts = _counts(plain, mention, _words(tuple(choices)))
        if re.match(r" ?[:)][ \n]| [–-] ", plain[mention.end() : mention.end() + 3]) or (
            mention.group().startswith("(")
            and plain[mention.end() : mention.end() + 1] == " "
            and _BULLETED.search(plain[max(0, mention.start() - 3) : mention.start()])
        ):
            described.add(name)
        if counts > 0:
            made.add(name)
        elif counts < 0:
            against.add(name)
    lowered = plain.lower()
    if made and (TAKEN_BACK.search(lowered) or REFUSED.search(lowered)):
        raise NoScoreError(f"a choice that is taken back in {shortened(text)}")
    if made and len(choices) == 2 and _TIED.search(plain):
        raise NoScoreError(f"a choice and a tie in {shortened(text)}")
    if made and begun - made:
        raise NoScoreError(f"another choice begins a line of {shortened(text)}")
    if made & described and described - made - against:
        raise NoScoreError(f"each choice is described in {shortened(text)}")
    if made & against:
        raise NoScoreError(f"{', '.join(made & against)} for better and worse in {shortened(text)}")
    return made


def few(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """All matches; NoScoreError where there are too many to look at each."""
    matches = list(islice(pattern.finditer(text), MOST_MENTIONS + 1))
    if len(matches) > MOST_MENTIONS:
        raise NoScoreError(f"more than {MOST_MENTIONS} possible answers: {shortened(text)}")
    return matches


@lru_cache(maxsize=64)
def _words(choices: tuple[str, ...]) -> str:
    return "|".join(re.escape(choice) for choice in choices)


@lru_cache(maxsize=64)
def _mentions(choices: tuple[str, ...]) -> re.Pattern[str]:
    """A choice: in brackets in any case, else in its own; "a" is an article more often."""
    word = _words(choices)
    return re.compile(
        rf"(?:\b(?i:{_NOUN}) )?(?:# ?)?(?:\[\[? ?((?i:{word})) ?\]\]?|\(((?i:{word}))\)"
        rf"|(?<![\w'.&/-])({word})(?:'s (?i:{_NOUN}))?(?![\w'&]|[-/.]\w)|(?:\A"
        rf"|(?<=\n))((?i:{word}))(?=[.!)]?(?:\Z"
        rf"|\n))|(?:(?<=[:=s] )|(?<=fer )|(?<=ose )|(?<=ick ))((?i:{word}))(?=[.!;,)]?(?:\Z|\n)"
        rf"|[.!;,] )"
        rf"|(?<![\w'.&/-])((?i:{word}))(?= (?:is|was|seems) (?:\w+ly |much |the )?(?:better|best"
        rf"|worse)))"
    )


def _counts(text: str, mention: re.Match[str], word: str) -> int:
    """1 where a mention makes its choice, -1 where it speaks against it, else 0."""
    start, end = mention.span()
    before, after = text[max(0, start - 120) : start], text[end : end + 120]
    alone = re.fullmatch(r"(?:.*\n)?[\W_]{0,3}", before, re.DOTALL) is not None
    if _WORSE.match(after):
        return -1
    place = _place(text, mention, before, after, alone=alone)
    if not place:
        return 0
    if re.match(
        rf"(?i:{_OTHERS}(?:maybe |perhaps |even |possibly )?(?:the )?(?:{_NOUN} )?)[\[(]{{0,2}}"
        rf"(?:(?:{word})\b|(?i:{word})(?=[.!,)\]]|\Z|\n))",
        after,
    ) or re.search(rf"\b(?:{word})[\])]{{0,2}}(?i:{_OTHERS})(?:the )?\Z", before):
        raise NoScoreError(f"two choices in one place: {shortened(text)}")
    tail = re.match(r"[\])\"'.:,]{0,4} ?\?", after) or (
        place == "better" and re.match(r"[^.!;\n]{0,120}\?", after)
    )
    sentence = sentence_before(text, start)
    if place == "better":  # its own subject: "although neither is perfect, Output (b) is better"
        sentence += "it would" if after.startswith(" would") else "it"
    if place in {"label", "prefer", "better", "said"} and (
        CORRECTED.search(before) or not own_words(sentence, _COMPARING) or _PARTLY.match(sentence)
    ):
        raise NoScoreError(f"a choice that may be another's, or of a part: {shortened(text)}")
    if place not in {"first", "alone"} and UNDONE.match(after):
        raise NoScoreError(f"a choice that is taken back in its sentence: {shortened(text)}")
    if tail or quoted(text, start, end) or doubted(sentence):
        if place == "prefer":
            return -1
        raise NoScoreError(
            f"a choice that is negated, supposed, asked or quoted: {shortened(text)}"
        )
    return 1


def _place(
    text: str, mention: re.Match[str], before: str, after: str, *, alone: bool
) -> str | None:
    """What makes a mention a choice, if anything does."""
    if mention.group().startswith("[["):
        return "brackets"
    if _LABELLED.search(before) and _ENDS.match(after):
        return "label"
    if _PREFER.search(before):
        return None if _ONLY.match(after) else "prefer"
    better = _BETTER.match(after)
    if better:
        rest = better["rest"] or after[better.end() :]
        return None if _ONLY.match(rest) else "better"
    if alone and re.match(r"[\"'\]]{0,2}[.!)]?[\"']?(?:\Z|\n)", after):
        return "alone"
    if _SAYING.search(before) and re.match(
        r"[\"']?[.!]?(?:\Z|\n| –| -|,| because\b| since\b)", after
    ):
        return "said"
    # First in the reply or on a line, before an explanation: "B: Summary 2 is more consistent."
    first = not before.strip()
    if alone and re.match(
        r" ?[:)] ?\S| [–-] \S| ?\((?!\w{1,2}\))"
        + (r"|[.,] \S" if first else "")
        + r"| (?:The|This|It|[Bb]ecause)\b",
        after,
    ):
        return "first"
    if (first or re.search(r"[.!?]\s\Z", before)) and re.match(r"[.!]?(?:\Z|\n)", after):
        return "sentence"
    return None
