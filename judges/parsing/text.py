"""A reply as plain sentences, and which of their clauses are the judge's own answer.

Models write around an answer what they like; what they write *in* it is a few hundred words. So a
clause is an answer where every word of it is known; one unknown word ("the author gives it a 5")
and it may be somebody else's, negated, supposed or about something else.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from judges.judgement import NoScoreError

QUOTED_LENGTH = 160
# What is read at most, white space counted once: a longer reply is no answer to our question.
MAX_REPLY_LENGTH = 20_000
MAX_ANSWERS = 300  # numbers or letters that may be the answer: more are no answer either


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a judge's own clause is made of, beside the rating or choice and what it is called.
OWN = words(
    "i i'd i'll i'm i've we my our a an the this that these it it's its that's is are be would"
    " will should must do have been as at of for on in with from and so thus therefore hence"
    " overall finally also here here's based given above analysis evaluation assessment criteria"
    " criterion provided considering think believe feel find say conclude conclusion opinion me"
    " final single total own clear clearly definitely certainly solid strong good decent fair full"
    " high low perfect quite very pretty just only simply exactly still now result results"
    " resulting leading leads which yes sure okay ok however following summary response output"
    " text answer reply dialogue conversation translation story essay candidate summary's to"
    " response's output's text's reply's ultimately personally accordingly consequently between"
    " numerical numeric integer appropriate corresponding because while since although"
)
# With these begins what follows from a reason before: "it does not name the day, so it gets a 3".
_SO = words("so thus therefore hence")
_RESULTS = _SO | words(
    "resulting leading earning scoring receiving getting giving meriting warranting deserving with"
)
# A sentence that begins "Xxx: ..." is the judge's own where it is one of these.
_LABELS = words(
    "reason reasons reasoning analysis explanation justification rationale evaluation feedback"
    " comment comments conclusion comparison assessment judgement judgment verdict thought thoughts"
    " thinking overall summary step steps notes"
)
_NEGATED = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|hardly|barely|without|nothing|nobody|none|refuse\w*"
    r"|doubt\w*|den(?:y|ies|ied))\b|n't\b"
)
_ALTHOUGH = re.compile(r"\W*(?:therefore, )?(?:although|though|while|because|since|as)\b")
_SUPPOSED = re.compile(
    r"(?:\A|[,;:–(] ?|\b(?:so|but|and),? )\W*(?:(?:but|and|so|even|only|perhaps|maybe),? )*"
    r"(?:if|unless|suppos\w+|imagine|in case|(?:had|were|should) (?:it|the|this|that|they|i))\b"
    r"|\b(?:i would have|i'd have|assum\w+|you|your|asked for|instruct\w*|inject\w*|prompt\w*)\b"
)
_REPORTED = re.compile(
    r"\b(?:says?|said|writes?|wrote|states?|stated|reads|claim(?:s|ed)?|argu(?:e|es|ed)|asks?|asked"
    r"|tells?|told|wants?|wanted|demand\w*|requests?|begs?|insist\w*|quot\w+|pretend\w*|example"
    r"|expect\w*|users?|according"
    r" to (?!the (?:\w+ )?(?:criteri|rubric|scale|definition|guideline)))\b"
)
_BREAK = words(", – - (")
_PUNCTUATION = words(", : = – - ( ) → • + ⭐ ★ ' \" #")
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*'?|[^\w\s]|_")
# A rating or choice is withdrawn after it was given, or none is given at all.
WITHDRAWN = re.compile(
    r"\b(?:scratch that|on (?:second thoughts?|reflection)|take (?:that|it) back|never ?mind"
    r"|(?<!i )(?:disregard|ignore) (?:that|my|the above)|i misspoke|my (?:mistake|bad)|i lied"
    r"|let me (?:re\w+|correct|change|think)|i (?:\w+ )?(?:to )?(?:reconsider|revise|retract|stand"
    r" corrected|changed? my)|just kidding|i'm joking|not really|i am not sure|i'm not sure)\b"
    r"|\b(?:that|this|it)(?:'s| is| was| seems| may be)(?: \w+)? too (?:high|low|generous|harsh"
    r"|strict|lenient|much)\b|\bthat(?:'s| is| was) (?:wrong|a mistake|not right)\b"
    r"|\b(?:wait|hmm+|oops|sorry)\b ?[,.:!–]|\b(?:correction|edit) ?[:!–]"
    r"|(?:(?<=[.!?] )or not|(?<=[a-z][.!?] )(?:not|no))[.!]?(?=\Z|\n)"
)
REFUSED = re.compile(
    r"\bi(?:'m| am)? (?:cannot|can't|can not|could(?:n't| not)|won't|will not|refuse|decline"
    r"|unable|not able)(?: to)? (?:rate|score|judge|evaluate|assess|assign|provide|give|grade"
    r"|decide|choose|pick|determine|compare|say|tell|prefer|select|answer|help|comply)\b|\bn/a\b"
    r"|\bi give up\b|\bno (?:rating|score|preference)\b|\b(?:rating|score|answer|verdict|preferred"
    r"|choice) ?[:=] ?(?:unknown|none|null|nan|unclear|not|undecided|tie|unsure|undefined|-{1,3}"
    r"|\?)(?!\w)"
)


def shortened(text: str) -> str:
    """Quote a reply for a message: its two ends where it is long, since the score is at an end."""
    if len(text) > 4 * MAX_REPLY_LENGTH:
        text = f"{text[:MAX_REPLY_LENGTH]} ... {text[-MAX_REPLY_LENGTH:]}"
    line = " ".join(text.split())
    if len(line) <= QUOTED_LENGTH:
        return repr(line)
    half = QUOTED_LENGTH // 2
    return repr(f"{line[:half]} ... {line[-half:]}")


class _Folding(dict[int, str]):
    """Full-width forms, digits of other scripts, quotes, dashes and spaces, each as one sign."""

    def __missing__(self, code: int) -> str:
        self[code] = sign = _folded(chr(code))
        return sign


_SIGNS = {
    **dict.fromkeys("“”„«»「」『』", '"'),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("−‐‑", "-"),
    **dict.fromkeys("‒—―", "–"),
    "。": ". ",
    "、": ", ",
    "…": "...",
}


def _folded(sign: str) -> str:
    """A sign's plain form: ASCII digits, blanks and widths; '' for a zero-width sign."""
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


_FOLDING = _Folding({code: chr(code) for code in range(128)})
# In this order: what surrounds an answer goes, and what names it becomes a label.
_REWRITTEN = (
    (re.compile(r"```[A-Za-z]{0,10}\n?"), "\n"),
    (re.compile(r"</?(?:b|i|u|p|br|em|strong|span|div|li|ul|ol|center|code|h\d) ?/?>", re.I), " "),
    (re.compile(r"^ ?#{1,6} ([^\n:.!?]{1,60})$", re.M), r"\1:"),
    (
        re.compile(r"\\(?=[*_`#\[\]])|[*`]|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|^#{1,6} ", re.M),
        "",
    ),
    (re.compile(r"<([A-Za-z_]{1,30})>\s{0,3}([^<>\n]{0,60})\s{0,3}</\1>"), r"\n\1: \2\n"),
    (re.compile(r"</?[A-Za-z_]{1,30}>"), "\n"),
    (re.compile(r"\\boxed ?\{(?:\\text ?\{)?([^{}\n]{0,40})\}{1,2}"), r"\1"),
    (re.compile(r"\\[()\[\]] ?|\$(?=[^$\n]{1,20}\$)|(?<=\w)\$(?!\w)"), ""),
    (re.compile(r"\[(result|score|rating)\]:? ?", re.I), r"\n\1: "),
    (re.compile(r"[-=]>"), "→"),
)
_ABBREVIATED = re.compile(
    r"\b(e\.g|i\.e|vs|cf|no|nr|figs?|eqs?|refs?|pp?|ch|secs?|arts?|approx|ca|dr|mrs?|st)\.(?= )",
    re.IGNORECASE,
)
_QUOTATION = re.compile(
    r"\"[^\"\n]*?([.,!?]?)\"|(?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))+?([.,!?]?)'(?!\w)"
)
TURN_END = re.compile(r"(?:</s>|<\|[a-z_]{1,20}\|>)\Z")


def plain_lines(text: str) -> str:
    """A reply without markup, blank lines and double spaces; NoScoreError where it is too long."""
    # A token that ends a turn, left in by the endpoint, is no word of the judge's.
    text = TURN_END.sub("", text.rstrip())
    plain = _without_blanks(text)
    if len(plain) > MAX_REPLY_LENGTH:
        raise NoScoreError(
            f"{len(plain):,} characters, of which at most {MAX_REPLY_LENGTH:,} are read: "
            f"{shortened(text)}"
        )
    plain = plain.translate(_FOLDING)
    for pattern, replacement in _REWRITTEN:
        plain = pattern.sub(replacement, plain)
    return _without_blanks(plain)


def _without_blanks(text: str) -> str:
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def json_object(text: str) -> tuple[str, list[tuple[str, object]], str]:
    """Split a reply at the one JSON object in it, if any: what stands before, its items, the rest.

    Raises NoScoreError where the object names a key twice.
    """
    start, end = text.find("{"), text.rfind("}") + 1
    if start < 0 or end <= start or end - start > MAX_REPLY_LENGTH:
        return text, [], ""
    try:
        items = json.loads(text[start:end], object_pairs_hook=list)
    except (ValueError, RecursionError):
        return text, [], ""
    names = [str(name).strip().lower() for name, _ in items]
    if len(set(names)) < len(names):
        raise NoScoreError(f"a key stands twice in {shortened(text)}")
    return text[:start], list(zip(names, (value for _, value in items), strict=True)), text[end:]


def sentences(text: str, answer: str) -> Iterator[str]:
    """Cut plain lines into sentences; what is quoted is a mark that is no word.

    `answer` is a pattern of what a line may hold alone. A line that ends in a colon, or a short one
    above an answer alone, labels the next.
    """
    text = re.sub(r"^>.*$", "§", text, flags=re.MULTILINE)
    text = re.sub(r"[\[\]{}]|[\"'](?=\w{1,40}[\"'] ?:)|(?<=\w)[\"'](?= ?:)", " ", text)
    text = re.sub(rf"[\"'](?={answer}[\"'])({answer})[\"']", r"\1", text, flags=re.IGNORECASE)
    text = _QUOTATION.sub(r"§\1\2", text)
    text = re.sub(r"(?<=[^\W\d_])_(?=[^\W\d_])", " ", _ABBREVIATED.sub(r"\1", text))
    text = re.sub(r"(?<=[:=])\n(?:[-•+] )?", " ", text)
    text = re.sub(
        rf"^(?![-•+] )([^\W\d][^\n.!?,;:\d]{{0,30}})\n(?={answer}[.!]?$)",
        r"\1: ", text, flags=re.MULTILINE | re.IGNORECASE,
    )  # fmt: skip
    for line in text.splitlines():
        for sentence in re.split(r"(?<=[.!?])[\"']*\s+|(?<=;)\s+", line):
            yield " ".join(sentence.split()).replace(" .", ".")


class Clause(NamedTuple):
    """The clause that an answer stands in, up to the answer, in lower case."""

    text: str
    begins_sentence: bool


def own_clause(before: str, known: Callable[[str], bool]) -> Clause | None:
    """The clause of `before`, a sentence up to the answer, if its words are all `known`.

    The clause begins the sentence, or follows a comma, a dash or a word as "so" after a part that
    supposes and reports nothing, and negates nothing but as a reason. Else None.
    """
    lowered = before.lower()
    tokens = list(_TOKEN.finditer(before))
    start = len(tokens)
    while start and (tokens[start - 1].group() in _PUNCTUATION or known(tokens[start - 1].group())):
        start -= 1
    if not start:
        return Clause(lowered, begins_sentence=True)
    label, colon, _ = lowered.partition(":")
    label = label.lstrip(" -•+")
    own_label = not colon or "," in label or label in _LABELS or own_clause(label, known)
    if _SUPPOSED.search(lowered) or not own_label:
        return None
    for token in tokens[start - 1 :]:
        after_break = token.group() in _BREAK
        if after_break or token.group().lower() in _SO:
            clause = lowered[token.end() if after_break else token.start() :].strip()
            result = clause.split(" ", 1)[0].strip(",") in _RESULTS
            reported = _REPORTED.search(lowered)
            negated = _NEGATED.search(lowered, 0, token.start()) and not _ALTHOUGH.match(lowered)
            if (reported or negated) and not result:
                return None
            return Clause(clause, begins_sentence=False)
    return None
