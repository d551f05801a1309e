"""The catalogue: twelve judges, defined as data, from three sources.

SummEval: the definitions are from Fabbri et al. 2021 (arXiv:2007.12626), and the method of judging
by a prompt is from Liu et al. 2023 (G-Eval, arXiv:2303.16634). Fluency is judged from the summary
alone.

Chain of Density: Adams et al. 2023 (arXiv:2309.04269), the appendix on GPT-4 metrics. Quality and
coherence are judged from the summary alone. The paper reports the Pearson coefficient of each
metric with people's first-place votes: informative .215, quality .120, coherence .178,
attributable .245, and overall .311.

DPO win rates: Rafailov et al. 2023 (arXiv:2305.18290), the appendix on GPT-4 prompts. Two summaries
of a forum post are compared by how well they give the post's most important points
(`tldr_salience`, the paper's prompt S); in `tldr_concise` (prompt C), unimportant details count
against a summary, too. Chatbot responses are compared by helpfulness.
"""

import difflib
from functools import partial

from judges.dimension import (
    RESERVED_QUESTION_NAMES,
    Comparison,
    Dimension,
    Subject,
    UnknownDimensionError,
)
from judges.questions import Question

SUMMARY = {"summary": "the summary to judge"}
DOCUMENT_AND_SUMMARY = {"document": "the text that was summarized", **SUMMARY}
ARTICLE_AND_SUMMARY = {"document": "the article that was summarized", **SUMMARY}
FORUM_POST = {"post": "the forum post that was summarized"}


def _dimension(
    name: str,
    definition: str,
    instruction: str,
    *,
    anchors: tuple[str, str, str],
    inputs: dict[str, str],
    source: str,
    questions: tuple[Question, ...] = (),
) -> Dimension:
    """Return a dimension with the scale 1 to 5; `anchors` say what earns the ratings 1, 3 and 5."""
    return Dimension(
        name=name,
        definition=definition,
        inputs=inputs,
        anchors={1: anchors[0], 2: "", 3: anchors[1], 4: "", 5: anchors[2]},
        instruction=instruction,
        source=source,
        questions=questions,
    )


_summeval_dimension = partial(
    _dimension,
    inputs=DOCUMENT_AND_SUMMARY,
    source="SummEval (arXiv:2007.12626), G-Eval (arXiv:2303.16634)",
)
_chain_of_density_dimension = partial(
    _dimension,
    anchors=("worst", "", "best"),
    inputs=ARTICLE_AND_SUMMARY,
    source="Chain of Density (arXiv:2309.04269)",
)
_dpo_comparison = partial(Comparison, source="DPO win rates (arXiv:2305.18290)")


def _make_questions(**question_texts: str | tuple[str, str, str]) -> tuple[Question, ...]:
    """Make yes-no questions from texts, and 1-3 questions from (text, anchor 1, anchor 3)."""
    return tuple(
        Question(name=name, text=text)
        if isinstance(text, str)
        else Question(name=name, text=text[0], answers=(1, 2, 3), anchors={1: text[1], 3: text[2]})
        for name, text in question_texts.items()
    )


COHERENCE = _summeval_dimension(
    "coherence",
    "how well the sentences of the summary hold together as one ordered whole",
    "Judge the coherence of the summary: do its sentences build one organised whole, or are they a "
    "heap of related facts? Find the document's main topic and points, then see whether the "
    "summary presents them in a clear and logical order, with connected sentences.",
    anchors=(
        "a heap of unconnected statements",
        "an order can be made out, with jumps or loose ends",
        "one well-built text that leads from sentence to sentence",
    ),
    questions=_make_questions(
        one_topic="does the summary stay on topic from its first sentence to its last",
        clear_opening="does the first sentence say what the summary is about",
        logical_order="do the sentences stand in an order that a reader can follow",
        linked_sentences=(
            "how closely each sentence is linked to the one before it",
            "the sentences could stand in any order",
            "every sentence continues from the one before",
        ),
        clear_references="is it clear whom or what every pronoun and every short name means",
        no_repeated_sentences="is the summary free of sentences that repeat an earlier one",
        complete_ending="does the summary end with a complete sentence and a finished thought",
    ),
)

CONSISTENCY = _summeval_dimension(
    "consistency",
    "whether every fact the summary states is supported by the document",
    "Judge the factual consistency of the summary: does the document support each statement it "
    "makes? Check every fact of the summary against the document and lower the rating for facts "
    "that are contradicted, altered or made up.",
    anchors=(
        "most statements are contradicted or invented",
        "some statements have no support",
        "the document supports every statement",
    ),
    questions=_make_questions(
        names_correct="are all names of people, places and organisations those of the document",
        numbers_correct="are all numbers, dates and amounts of the summary those of the document",
        roles_correct="does everyone in the summary do what the document says they did",
        nothing_invented="is there a passage of the document behind every statement of the summary",
        nothing_reversed="is the summary free of statements that the document contradicts",
        speakers_correct="does the summary give every statement to the one who made it",
        certainty_kept="does the summary tell plans, claims and doubts as such, not as facts",
    ),
)

FLUENCY = _summeval_dimension(
    "fluency",
    "the quality of the summary's single sentences as English",
    "Judge the fluency of the summary, sentence by sentence: grammar, spelling, punctuation, "
    "capitals, choice of words and sentence structure. Lower the rating for mistakes that make it "
    "hard to read.",
    anchors=(
        "hard to read: broken grammar, fragments, stray characters",
        "readable in spite of mistakes",
        "clean sentences without mistakes",
    ),
    inputs=SUMMARY,
    questions=_make_questions(
        full_sentences="is every sentence complete, with a subject and a verb",
        correct_grammar="is the summary free of mistakes in grammar",
        correct_spelling="is every word spelled correctly, with capitals where they belong",
        correct_punctuation="do all commas, full stops and quotation marks stand where they belong",
        clean_text="is the summary free of stray characters, markup and doubled words",
        natural_wording=(
            "how natural the choice of words is",
            "many phrases that no writer would use",
            "all as a careful writer would put it",
        ),
    ),
)

RELEVANCE = _summeval_dimension(
    "relevance",
    "whether the summary picks the important content of the document and only that",
    "Judge the relevance of the summary: does it select the important content of the document? "
    "Work out the main points, see how many the summary covers, and lower the rating for "
    "redundancy and for details that do not matter.",
    anchors=(
        "misses the point, or is full of side issues",
        "some main points, some missing or beside the point",
        "all main points and nothing superfluous",
    ),
    questions=_make_questions(
        main_point="does the summary state the main point of the document",
        key_points=(
            "how many of the document's important points the summary has",
            "few or none of them",
            "nearly all of them",
        ),
        no_side_issues="does the summary leave out details that matter little in the document",
        no_redundancy="does the summary make each point once, without repetition",
        fitting_emphasis="does the summary give most room to the main topics of the document",
        stands_alone="does a reader of the summary alone learn what happened and to whom",
    ),
)

COD_INFORMATIVE = _chain_of_density_dimension(
    "cod_informative",
    "whether the summary gives the important information, accurately and in few words",
    "Judge how informative the summary is. An informative summary covers the important points of "
    "the article, states them accurately, as the article supports them, and is concise.",
    questions=_make_questions(
        central_event="does the summary say what the article is centrally about",
        key_people="does the summary name the people and organisations that matter most",
        concrete_facts="does the summary give concrete facts, such as numbers, dates and places",
        background="does the summary give the cause or the background that the article gives",
        outcome="does the summary say how the matter ended, or where it stands now",
        no_filler="does every phrase of the summary carry information",
    ),
)

COD_QUALITY = _chain_of_density_dimension(
    "cod_quality",
    "whether a reader can follow and understand the summary",
    "Judge the quality of the summary. A summary of high quality is easy to read: a reader who "
    "sees nothing else can follow every sentence and understand what it says.",
    inputs=SUMMARY,
    questions=_make_questions(
        clear_at_once="can every sentence be understood at the first reading",
        known_terms="is every name and term of the summary commonly known or explained",
        light_sentences=(
            "how easy it is to take in what one sentence holds",
            "sentences crammed with facts",
            "each sentence holds a few facts at most",
        ),
        no_context_needed="does the summary make sense to a reader who knows nothing of the matter",
        sound_language="is the summary free of mistakes in grammar, spelling and punctuation",
    ),
)

COD_COHERENCE = _chain_of_density_dimension(
    "cod_coherence",
    "whether the summary is well structured and in a good order",
    "Judge the coherence of the summary. A coherent summary is well structured and well organised: "
    "its sentences are connected and stand in a logical order.",
    inputs=SUMMARY,
    questions=_make_questions(
        topic_first="does the summary introduce its topic before it goes into details",
        single_story="do all sentences of the summary belong to one story",
        sensible_order="are the events told in the order in which a reader expects them",
        joined_sentences="does every sentence take up something from the sentences before it",
        clear_pronouns="is it clear whom or what every pronoun of the summary means",
    ),
)

COD_ATTRIBUTABLE = _chain_of_density_dimension(
    "cod_attributable",
    "whether everything the summary says can be found in the article",
    "Judge how far the summary is attributable to the article: is all of its information fully "
    "supported by the article? Lower the rating for every fact the article does not support.",
    questions=_make_questions(
        no_new_facts="does the article state every event that the summary tells",
        no_new_names="does the article mention every person, place and organisation of the summary",
        no_new_numbers="does every number, date and amount of the summary stand in the article",
        causes_stated="does the article itself state every cause and consequence in the summary",
        no_overstatement="does the summary claim no more than the article does",
        no_mixed_facts="does the summary never merge what belongs to different people or events",
    ),
)

COD_OVERALL = _chain_of_density_dimension(
    "cod_overall",
    "how good the summary is as a whole",
    "Judge the summary as a whole, by how much a reader would prefer it. A good summary brings "
    "across the main points of the article, and is concise, logical and coherent.",
    questions=_make_questions(
        essentials=(
            "how much of what matters in the article the summary brings across",
            "little of what matters",
            "all that matters",
        ),
        nothing_superfluous="could no part of the summary be left out without a loss",
        faithful="does the summary agree with the article in all that it states",
        readable="does the summary read easily from beginning to end",
        well_ordered="does the summary lead from one point to the next in a logical order",
    ),
)

TLDR_SALIENCE = _dpo_comparison(
    name="tldr_salience",
    definition="which summary better gives the post's most important points",
    inputs=FORUM_POST,
    candidate="summary",
    instruction="Decide which of the two summaries of the forum post is better. The better "
    "summary covers more of the most important points of the post.",
)

TLDR_CONCISE = _dpo_comparison(
    name="tldr_concise",
    definition="which summary gives the post's most important points and no unimportant detail",
    inputs=FORUM_POST,
    candidate="summary",
    instruction="Decide which of the two summaries of the forum post is better. A good summary "
    "gives the most important points of the post without unimportant or irrelevant details: it is "
    "both precise and concise.",
)

DIALOGUE_HELPFUL = _dpo_comparison(
    name="dialogue_helpful",
    definition="which response is more helpful to the user who asked the query",
    inputs={"query": "what the user asked the chatbot"},
    candidate="response",
    instruction="Decide which of the two responses to the user's query is more helpful. Which one "
    "is more helpful decides: prefer the more helpful one.",
)

JUDGES: dict[str, Subject] = {
    judge.name: judge
    for judge in (
        *(COHERENCE, CONSISTENCY, FLUENCY, RELEVANCE),
        *(COD_INFORMATIVE, COD_QUALITY, COD_COHERENCE, COD_ATTRIBUTABLE, COD_OVERALL),
        *(TLDR_SALIENCE, TLDR_CONCISE, DIALOGUE_HELPFUL),
    )
}


def names() -> tuple[str, ...]:
    """Return the names of all catalogue judges, grouped by source."""
    return tuple(JUDGES)


def find_subject(name: str) -> Subject:
    """Return the subject of that name; UnknownDimensionError suggests similar names."""
    if name in JUDGES:
        return JUDGES[name]
    similar_names = difflib.get_close_matches(name.lower(), JUDGES, n=3, cutoff=0.5)
    raise UnknownDimensionError(
        f"no judge {name!r} in the catalogue; did you mean {', '.join(similar_names or JUDGES)}? "
        "dspy-judges list shows all; a judge of your own is a file, FILE.yaml"
    )


def same_source_questions(subject: Subject) -> tuple[Question, ...]:
    """Return the other dimensions of the subject's source, as questions for a judge of `subject`.

    All these dimensions judge the same text as the subject. A question may need a text that the
    judge does not read; tuning learns from people's labels how much the answers to each question
    are worth. There are no questions for a comparison, or for a subject that is not in the
    catalogue.
    """
    if JUDGES.get(subject.name) != subject:
        return ()
    return tuple(
        Question(name=other.name, text=other.definition, answers=other.scale, anchors=other.anchors)
        for other in JUDGES.values()
        if isinstance(other, Dimension)
        and (other.source, other.texts[-1]) == (subject.source, subject.texts[-1])
        and other != subject
    )


def candidate_questions(subject: Subject, max_questions: int) -> tuple[Question, ...]:
    """Return the questions that tuning may add to a judge, at most `max_questions`.

    First come the other dimensions (see `same_source_questions`), then the questions in the
    definition. Of two questions with one name, the first is kept. A question is left out if the
    prompt uses its name for something else.
    """
    questions: dict[str, Question] = {}
    for question in (*same_source_questions(subject), *subject.questions):
        if question.name not in RESERVED_QUESTION_NAMES.union(subject.texts):
            questions.setdefault(question.name, question)
    return tuple(questions.values())[:max_questions]
