"""The words that name facets, as people use them in definitions, anchors and instructions.

Each entry maps the beginning of a word to facets and how much of each it means. Where a word names
a broad quality, its parts are those that published definitions give it.
"""

import re

from judges.models.embedded.words import word_set

# One line an entry: beginnings of words, then facet=share.
_ENTRIES = """
coher incoher | order=.7 connection=.7 unity=.7 rewording=.7 repetition=.7 grammar=.4 style=.4
organi disorgani structur | order=.6 connection=.3 structure=.1
ordered order orderly sequen chronolog | order=1
logic illogic | order=.7 connection=.3
jumps jumpy jump | order=.6 connection=.4
connect unconnect disconnect cohes link transition | connection=.85 order=.15
flow smooth seamless | connection=.7 order=.3
stitch patchwork paste pasted | unity=.3 rewording=.3 continuity=.4
together whole unified unity heap discourse | connection=.3 unity=.3 order=.25 repetition=.15
well-built well-structured well-organi leads | order=.4 connection=.4 repetition=.2
loose dangling | connection=.7 repetition=.3
repeat repetit redundan duplica twice restat | repetition=1
consisten inconsisten factual faithful unfaithful | support=1.3 truth=.6 continuity=.8
fact facts | support=.2 truth=.2
attributab grounded groundedness entail | support=1.5 truth=.3 knowledge=.7
verif | support=1
support unsupport evidence back backed | support=.7 continuity=.3
invent hallucinat fabricat made-up unfounded | support=.7 truth=.3
contradict alter distort wrong false mistaken error-free | truth=1
true truth accura inaccura correct incorrect precise numbers names negat | truth=.7 support=.3
statement claim assert | support=.2 truth=.1 continuity=.1
relevan irrelevan | coverage=1.3 focus=.8 repetition=.4
cover coverage covers omit omission miss missing misses comprehensive | coverage=1
important key salient salien main central essential essence gist crucial | coverage=.8 focus=.2
point points | coverage=.8 focus=.2
informativ | coverage=1.4 specificity=.6 detail=.4
information inform content | coverage=.3 specificity=.1
unimportant extraneous superfluous side off-topic focus focused digress trivia | focus=1
unnecess needless padding | focus=1
select picks pick | coverage=.5 focus=.5
concise concis brief short succinct terse compact economical | conciseness=1
wordy verbose long-winded lengthy rambl | conciseness=1
thorough long longer elaborat developed depth extensive exhaustive length | detail=1
detail detailed details rich | detail=.5 specificity=.5
specific concrete vague generic exact | specificity=1
fluen disfluen | grammar=1 style=2 form=.3 completeness=.6
style styl written writing prose eloquen vocabular varied | style=1
gramma ungramma syntax tense agreement preposition phras wording | grammar=1
english language | grammar=.3 form=.2
mistake error typo slip | grammar=.5 form=.5
spell punctuat punctuation capital capitals casing format formatting typograph | form=1
stray characters spacing clean | form=1
fragment incomplete broken cut truncat unfinished complet ending | completeness=.7 grammar=.3
garbled unintelligib | grammar=.6 form=.4
readab understandab comprehensib intelligib | readability=.5 grammar=1.2 connection=.4
easy hard simple simpl plain accessib | readability=.3 grammar=.4 connection=.1
clear clarity understand follow | readability=.1 grammar=.4 connection=.3
complex complicat jargon | readability=1
engag | engagement=2.2 knowledge=.3
interest interesting dull boring captivat entertain curious lively fun fascinat | engagement=1
natural unnatural naturalness human-like humanlike conversational | naturalness=1.6 grammar=.7
human spoken person | naturalness=.5
appropriate on-topic answers answer responds responding | answer=.6
reply replies response conversation context question query request asked | answer=.3
helpful unhelpful useful | answer=1 detail=.5 specificity=.5 structure=.2
help helps assist | answer=.5
instruction instructions | answer=1
knowledge knowledgeab background | knowledge=1
polite impolite rude harm harmless harmful toxic offensive kindness | courtesy=1
respect safe unsafe tone insult | courtesy=1
bullet list layout paragraph heading section | structure=1
verbatim copied copies wording-close quote literal | closeness=1
reword rewrit paraphras retell retold anew abstractive | rewording=1
"""
# Phrases that mean something else than their words, taken out before words are read.
_PHRASES = """
(?:made|makes?|making) (?:it |things? )?up | support=.7 truth=.3
(?:un|not )important (?:details?|information|content|points?) | focus=1
(?:irrelevant|minor|needless|superfluous|side|extra|trivial) (?:\\w+ )?{things} | focus=1
details? that (?:do|does) not matter | focus=1
nothing superfluous | focus=1
(?:and )?only that | focus=1
(?:side issues?|beside the point|off the point|off topic) | focus=1
(?:main|key|most important|important|essential|central) {things} | coverage=1
what (?:really )?matters | coverage=.6 focus=.4
miss(?:es|ing)? the point | coverage=.7 focus=.3
(?:simple|short) (?:words )?and easy to read | readability=1
(?:easy|easier|hard|harder) to {take} | readability=.2 grammar=.4 style=.2 form=.2
(?:choice of words|word choice|sentence structure) | grammar=.3 style=.8 completeness=.2
full,? (?:and )?varied sentences? | style=1
(?:stray|odd|strange) (?:characters?|symbols?|tokens?) | form=1
hold(?:s)? together | connection=.5 order=.3 repetition=.2
from sentence to sentence | connection=.8 order=.2
sentence by sentence | grammar=1
one thing in each sentence | continuity=1
last turn | answer=1
one piece | unity=1
own words | rewording=1
original wording | closeness=1
long enough | detail=1
well[- ](?:written|formed) | grammar=.4 style=.4 form=.2
as a whole | coverage=.3 grammar=.2 connection=.2 support=.3
(?:knowledge|facts?) given | knowledge=1
(?:the |a )?(?:given|provided) (?:facts?|knowledge) | knowledge=1
(?:makes?|making) (?:good )?use of | knowledge=1.5
uses? (?:of )?(?:the |it\\b) | knowledge=1
(?:valid |good |natural )?(?:continuation|continues?) | answer=1
(?:previous|preceding|dialog(?:ue)?) (?:context|turns?) | answer=.6
complete sentences? | completeness=.8 grammar=.2
on topic | answer=.6 focus=.4
"""

Shares = dict[str, float]


def _shares(text: str) -> Shares:
    return {name: float(value) for name, value in (one.split("=") for one in text.split())}


WORDS: dict[str, Shares] = {
    start: _shares(shares)
    for starts, shares in (line.split(" | ") for line in _ENTRIES.strip().splitlines())
    for start in starts.split()
}
_THINGS = "(?:details?|issues?|topics?|points?|ideas?|content|information|facts?|messages?|events?)"
_TAKE = "(?:read|follow|grasp|understand)"
_LISTED = [
    line.replace("{things}", _THINGS).replace("{take}", _TAKE).rsplit(" | ", 1)
    for line in _PHRASES.strip().splitlines()
]
PHRASES: list[Shares] = [_shares(shares) for _, shares in _LISTED]
PHRASE = re.compile("|".join(rf"(?P<p{n}>\b{words}\b)" for n, (words, _) in enumerate(_LISTED)))
# These beginnings are whole words too common to be read with any ending.
_WHOLE = word_set(
    "order read main key point points link back true cut list fun kind name number long short hard"
    " easy clear whole select numbers names pick picks last"
    " turn reply complet used uses given side person help"
    " helps leads jump fact facts content cover follow loose section task language tense"
)
SHORTEST = 4


def shares_of(word: str) -> Shares | None:
    """What a word names, by its longest beginning that the lexicon has."""
    if word in WORDS:
        return WORDS[word]
    for end in range(len(word) - 1, SHORTEST - 1, -1):
        start = word[:end]
        if start in WORDS and start not in _WHOLE:
            return WORDS[start]
    return None
