r"""Read the one choice a reply makes among a few letters or words; refuse any other reply.

1. Markup and what stands in quotes are left out, as from ratings. A letter counts in brackets in
   either case, else in its own: "a" is an article more often.
2. A letter is chosen where every word of its clause is known to be the judge's own and it is called
   the answer ("Preferred: B", "I choose B", "B is better", "B outperforms A", "A > B", "[[B]]"), or
   where it begins a line and stands alone or before a reason ("B", "B: it is precise").
   In a JSON object the keys say what is the choice.
3. All letters chosen must agree. One that is also called worse, and another one in a place that the
   known words do not cover ("Style: B", "B is better in style", "or B") make the reply fail, but
   the latter not where a letter that is called the answer follows it ("Overall: A").
4. A choice that is withdrawn, refused or called a tie makes the reply fail.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from judges.judgement import NoScoreError
from judges.parsing.text import (
    MAX_ANSWERS,
    OWN,
    REFUSED,
    WITHDRAWN,
    json_object,
    own_clause,
    plain_lines,
    sentences,
    shortened,
    words,
)

_NOUN = r"(?:output|response|summary|answer|option|assistant|candidate|text|reply|version|model)"
_NAMED = words(
    "preferred preference answer choice verdict winner decision better best selection pick selected"
    " chosen result output judgement judgment helpful conclusion overall"
)
_KNOWN = (OWN | _NAMED | words(
    "more option assistant one ones than two comparing comparison evaluation balance prefer choose"
    " select favor favour go vote settle opt but both are good say"
)) - {"its"}  # fmt: skip
_KEYS = words(
    "preferred preference winner choice answer verdict better best decision selected selection"
    " final_answer final_verdict better_summary better_response better_output prediction"
)
_LEAD_IN_WORDS = frozenset(
    ("", "so", "yes", "therefore", "thus", "hence", "overall", "definitely", "clearly")
)
_LINK = re.compile(
    r"(?:[:=→]| [–-]| (?:is|would be|must be)(?: clearly| therefore| thus)?:?) ?(?:the )?\Z"
)
_VERB = re.compile(
    r"\b(?:i|i'd|i'll|we|my)\b.*\b(?:prefer|choose|pick|select|favou?r|say|go with|vote for|opt for"
    r"|settle on) ?(?:the )?\Z"
)
_ADVERBS = (
    r"(?:(?:the|a|much|far|by far|slightly|clearly|definitely|significantly|considerably|noticeably"
    r"|substantially|marginally|generally|certainly|simply|undoubtedly|still|overall|also|even"
    r"|therefore|thus|a bit|a little|somewhat) ){0,4}"
)
_SUPERIOR = r"(?:better|best|preferred|preferable|superior|stronger|more helpful|winner)\b"
_BETTER = re.compile(
    rf" (?:is|seems|appears) {_ADVERBS}{_SUPERIOR}(?: (?:one|choice|option|{_NOUN}))?"
    rf"| {_ADVERBS}(?:wins|outperforms|beats|surpasses)\b| ?>{{1,3}}(?= ?[\w(])"
    rf"| is (?:my|the) (?:choice|preference|pick|answer)\b| ?[:=–-] {_ADVERBS}(?:better|best)\b",
    re.IGNORECASE,
)
_WORSE = re.compile(
    rf" (?:is|was|seems|appears) {_ADVERBS}(?:worse|worst|inferior|weaker|weakest|less )| loses\b"
    rf"| (?:isn't|is not|is no|is never|is hardly|can't be|cannot be)\b.{{0,40}}\b{_SUPERIOR}"
    r"| ?[:=–-] ?(?:(?:it|this|that|is|it's|clearly|much|slightly|far|a|bit) ){0,3}(?:worse|worst"
    r"|weaker|inferior|loser|bad|poor|no|not|wrong|less|incorrect|lacks|fails|rejected|misses|omits"
    r"|terrible|second)\b| ?[:=–-] ?(?:good|fine|okay|ok|short|long|dull|decent|fair)\b",
    re.IGNORECASE,
)
_END = (
    r"(?:\Z|[.!,;](?=\s|\Z)| ?\((?!tie|both|or |and |at |on |in |\?)| [–-] "
    r"| (?:because|since|as (?:it|they))\b| (?-i:(?=[A-Z][a-z])))"
)
# A lone letter: what gives its reason may follow.
_ALONE = re.compile(rf"{_END}|: ?[^\W\d]|\)\Z| (?:The|This|It|Because)\b")
_CORRECTION_OR_NEGATION = words(
    "or no not actually rather then wait maybe perhaps instead mean but and hmm ,"
)
_UNDONE = re.compile(
    r"\W*(?:some|said|if|or|maybe|perhaps|kidding|joking|not|guess|but (?:is|it|not)|right"
    r"|the (?:first|second) letter)\b"
)
# "B. Smith wrote it" names a person.
_INITIAL = re.compile(
    rf"\b[A-Z]\.(?= (?!(?i:the|it|this|that|they|both|each|{_NOUN})\b)[A-Z]\w+ (?:wrote|writes|said"
    r"|says|claims|claimed|argues|argued|reports|reported)\b)"
)
_PARTLY = re.compile(r"(?:for|in|at|on|as|regarding|when|with|to) |\w+ly,")
_WORSE_LABEL = re.compile(r"\b(?:worse|worst|loser|rejected|(?:not|least) preferred) ?[:=–-] ?\Z")
_TIED = re.compile(
    r"\b(?:(?:it(?:'s| is)|call it) a (?:tie|draw)|\((?:tie|draw)\)|neither is better"
    r"|both (?:are|were) (?:\w+ )?(?:equally|the same|equal)|equally (?:good|bad)|no clear winner"
    r"|(?:cannot|can't|could not) (?:decide|choose|say|tell)|either (?:one|is fine|would do))",
    re.IGNORECASE,
)


def parse_choice(text: str, choices: Sequence[str]) -> str:
    """Return the one choice `text` makes; NoScoreError quotes the reply in short.

    A tie counts only where `choices` has a word for it.
    """
    chosen = choices_made(text, choices)
    if len(chosen) > 1:
        raise NoScoreError(f"two choices, {' and '.join(sorted(chosen))}, in {shortened(text)}")
    if not chosen:
        raise NoScoreError(f"none of {', '.join(choices)} chosen in {shortened(text)}")
    return chosen.pop()


def choices_made(text: str, choices: Sequence[str]) -> set[str]:
    """Every choice that `text` makes; NoScoreError where one is doubtful, withdrawn or a tie."""
    before, items, after = json_object(plain_lines(text))
    prose = f"{before}\n{after}"
    mentions = [*_find_choice_mentions(prose, tuple(choices))]
    chosen = {parse_choice(str(value), choices) for name, value in items if name in _KEYS}
    chosen |= {name for name, kind in mentions if kind in {"called", "alone"}}
    if not chosen:
        return chosen
    last = max((i for i, (_, kind) in enumerate(mentions) if kind == "called"), default=0)
    if any(kind == "doubtful" and name not in chosen for name, kind in mentions[last:]):
        raise NoScoreError(f"another choice in its place in {shortened(text)}")
    if chosen & {name for name, kind in mentions if kind == "worse"}:
        raise NoScoreError(f"a choice for better and worse in {shortened(text)}")
    if WITHDRAWN.search(prose.lower()) or REFUSED.search(prose.lower()):
        raise NoScoreError(f"a choice that is withdrawn or refused in {shortened(text)}")
    if len(choices) == 2 and _TIED.search(prose):
        raise NoScoreError(f"a choice and a tie in {shortened(text)}")
    return chosen


def _find_choice_mentions(text: str, choices: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield (choice, kind) of every mention that matters; the kinds are those of `_kind`."""
    text = _INITIAL.sub("§", text)
    pattern, any_choice = _patterns(choices)
    by_name = {choice.lower(): choice for choice in choices}
    n_mentions = 0
    for sentence in sentences(text, rf"\(?{any_choice}\)?"):
        for mention in pattern.finditer(sentence):
            n_mentions += 1
            if n_mentions > MAX_ANSWERS:
                raise NoScoreError(f"more than {MAX_ANSWERS} possible answers: {shortened(text)}")
            kind = _kind(sentence, mention, any_choice)
            if kind:
                yield by_name[next(filter(None, mention.groups())).lower()], kind


def _kind(sentence: str, mention: re.Match[str], any_choice: str) -> str | None:
    """What a mention says of its choice, or None where it only speaks of it.

    "called": it is named as the answer or the better; "alone": it stands by itself where the answer
    would; "worse": it is the worse; "doubtful": it may be a correction or a second answer.
    """
    before, after = sentence[: mention.start()], sentence[mention.end() :]
    before = re.sub(r"\AA(?= [a-z])", "a", before)
    if _WORSE.match(after) or _WORSE_LABEL.search(before.lower()):
        return "worse"
    better = _BETTER.match(after)
    clause = None if "?" in after[:120] else own_clause(before, _known)
    if clause and (clause.begins_sentence or not _PARTLY.match(before.lower())):
        claim = clause.text.strip(" -•+⭐★'\"(")
        label = words(claim.rstrip(" :").rpartition(":")[2])
        if better:
            comparison = _comparison(any_choice).match(after, better.end())
            if comparison and not _UNDONE.match(after, comparison.end()):
                return "called"
        elif not _UNDONE.match(after):
            named = _VERB.search(claim) or (_LINK.search(claim) and label & _NAMED)
            if named and (re.match(_END, after) or _compared(any_choice).match(after)):
                return "called"
            alone = clause.begins_sentence and claim.strip(" ,") in _LEAD_IN_WORDS
            letter = " " not in mention.group().strip() or re.match(r"[.!]?\Z", after)
            if alone and letter and _ALONE.match(after):
                return "alone"
    previous = re.findall(r"[\w']+|[^\w\s]", before.lower())[-1:]
    corrects = not previous or previous[0] in _CORRECTION_OR_NEGATION or _LINK.search(before)
    if better or (corrects and re.match(r"\)?(?:[.!?,]|\Z| [A-Z])", after)):
        return "doubtful"
    return None


def _known(word: str) -> bool:
    return word.lower() in _KNOWN and word != "A"


@lru_cache(maxsize=64)
def _patterns(choices: tuple[str, ...]) -> tuple[re.Pattern[str], str]:
    """A mention: in parentheses in any case, else in the choice's own; and any choice."""
    name = "|".join(re.escape(choice) for choice in choices)
    any_choice = rf"(?i:{name})"
    pattern = re.compile(
        rf"(?:\b(?i:{_NOUN}) )?(?:# ?)?(?:\(({any_choice})\)|(?<![\w'.&/-])({name})"
        rf"(?:'s (?i:{_NOUN}))?(?![\w'&+]|[-/.]\w)"
        rf"|(?<![\w'.&/-])({any_choice})(?=[.!)]?\Z|[.!;,)]* (?:is|was|seems)\b))"
    )
    return pattern, any_choice


def _rival(any_choice: str) -> str:
    """What a choice is better than or preferred to."""
    rival = rf"the other(?: one| {_NOUN})?|(?i:(?:{_NOUN} )?)\(?{any_choice}\)?(?!\w)"
    return rf"(?: (?:than|to|over))? ?(?:{rival})"


@lru_cache(maxsize=64)
def _compared(any_choice: str) -> re.Pattern[str]:
    return re.compile(_rival(any_choice) + _END)


@lru_cache(maxsize=64)
def _comparison(any_choice: str) -> re.Pattern[str]:
    """What may follow "is better": what it is better than, "overall", a reason; never a part."""
    return re.compile(
        rf"(?:{_rival(any_choice)})?(?: (?:overall|here|in every way|in all respects|on balance"
        r"|on (?:all|most) counts|at everything|at this|for me))?"
        rf"(?:{_END}| (?:due to|given|for (?:its|being|these|this))\b)"
    )
