# ruff: noqa: E501 - the lists are data
"""Replies of a grammar, and replies written by hand to mislead: none is read as what it is not."""

import runpy
from pathlib import Path

import pytest

from judges.judgement import NoScoreError
from judges.parsing.parse import parse_choice, parse_rating

SCALE = range(1, 6)
GRAMMAR = Path(__file__).parents[2] / "benchmarks" / "replies.py"

# What models write when they are asked for a rating: each says 4.
RATED = [
    "I would rate the coherence of this summary as a 4 out of 5.",
    "I would rate the summary's relevance as 4.", "Coherence Score: 4/5", "**Coherence:** 4/5",
    "### Score: 4", "## Rating\n\n4/5",
    "Score: 4\n\nReasoning: The summary, which has 3 sentences, does not mention the date.",
    "The summary is well-written. It would receive a score of 4.", "Rating: 4 out of 5 stars",
    "⭐ Rating: 4", "Rating: 4 ⭐", "Overall: 4/5", "Overall, 4/5.", "Overall, I'd give this a 4/5.",
    "4 (Good)", "4 = Good", "4 — Good", "Final Answer: 4", "The final score is 4.",
    "The final answer is 4.", "My final rating is 4 out of 5.", "Final Rating: 4/5",
    "Evaluation: 4", "Evaluation score: 4", "Score (out of 5): 4", "Score out of 5: 4",
    "Quality: 4", "Relevance (1-5): 4", "Relevance rating: 4", "Assigned score: 4",
    "Given the above, I assign a score of 4.", "I'd assign a 4.", "I assign it a 4.",
    "I score this a 4.", "I'd score it 4/5.", "I'd score it a 4 out of 5.", "It earns a 4.",
    "It receives a 4/5.", "A 4.", "a 4", "I give 4.", "I give it 4 stars.", "I'd go with a 4.",
    "Thus, the score would be 4.", "so the score should be 4",
    "Therefore, I would give it a score of 4 on relevance.",
    "Therefore, the rating for this summary is 4.",
    "Given these considerations, the summary deserves a score of 4.",
    "The response is mostly on topic.\n\n**Rating: [[4]]**", "Rating: [4]", "Rating: \"4\"",
    "\"4\"", "'4'", "Rating：4", "Score:4", "Score→4", "Score -> 4", "Score is 4", "score of 4",
    "The score is: 4", "The score I would give is 4.", "I believe this summary merits a 4.",
    "This summary gets 4 out of 5 from me.", "Considering its clarity, I would rate it 4.",
    "Rating: 4/5\nConfidence: high", "4/5\n\nThe summary covers 3 of the 4 points.",
    "The summary rates a 4.", "Rating (1-5, where 5 is best): 4",
    "On a scale from 1 to 5, where 1 is poor and 5 is excellent, I would rate this a 4.",
    "On a scale of 1-5, this is a 4.", "On a scale of 1 to 5: 4",
    "I'd rate it 4 on a scale of 1 to 5.", "I'd rate this a 4 on a 5-point scale.", "```\n4\n```",
    "```json\n{\n  \"rating\": 4,\n  \"explanation\": \"It is a 5-sentence text.\"\n}\n```",
    "{\"score\": 4, \"max_score\": 5}", "{\"rating\": 4, \"scale\": \"1-5\"}",
    "{\"relevance_score\": 4}", "{\"Rating\": \"4/5\"}", "{rating: 4}",
    "rating: 4\nreasoning: it is fine", "rating=4", "<rating> 4 </rating>", "<answer>4</answer>",
    "Answer: <score>4</score>", "Step 1: Read the text.\nStep 2: Compare.\nScore: 4",
    "1. It is clear.\n2. It is short.\n\nScore: 4", "- It is clear.\n- It is short.\n\n4",
    "It's good overall. 4 out of 5.", "4, since it is fine.", "The summary is good; I rate it 4.",
    "I rate it 4, because it omits the date.", "Four stars", "I would rate it four out of five.",
    "Score: Four", "TOTAL SCORE: 4", "SCORE: 4",
    "Here's my evaluation:\n\n**Rating: 4/5**\n\nThe summary is good.", "The overall score is 4.",
    "Overall score: 4 out of 5. The summary is good.", "Rating: 4 - The summary is accurate.",
    "Score: 4 (good)", "I rate this summary 4 out of 5.", "My evaluation: 4",
    "I would score this summary 4 out of 5 for fluency.", "Fluency: 4 out of 5",
    "Fluency: 4. The summary is fluent.", "Fluency = 4", "4.\n\nThe text is good.",
    "4/5 because it's clear.", "The summary deserves a rating of 4.", "I'd rate it a solid 4.",
    "Rating: 4 (out of 5)", "The score for this summary would be 4.",
    "The appropriate score is 4.", "Thus I'd give a score of 4.", "This would be a 4.",
    "That's a 4.", "That is a 4 from me.",
    "Based on the given criteria, the summary scores 4 out of 5.", "The summary scores a 4.",
    "The rating for the summary's relevance is 4.", "I think the rating should be 4.",
    "I think it is a 4.", "I believe the score is 4", "Score: 4\nJustification: It is short.",
    "Final Score = 4/5", "{\"rating\":4}", "[4]",
    "Rating: 4 out of 5.\n\nStrengths:\n- clear\nWeaknesses:\n- short", "Relevance: **4**",
    "* Relevance: 4", "Relevance: 4 (Good)", "Relevance: 4 - good", "Rating:  4  ",
    "Rating: 4\n---", "---\nRating: 4", "Rating : 4", "rating 4", "4 points", "4 out of 5 points",
    "I'd award it 4 stars.", "It merits 4 out of 5.", "It's 4/5.", "It's a 4/5 for me.",
    "Answer: 4/5", "The answer is 4", "The answer is: 4", "Result: 4",
]  # fmt: skip
# Each holds a number that is no rating, or not the only one.
UNRATED = [
    "I wouldn't say this is a 5.", "This is no 5.", "This ain't a 5.", "It isn't quite a 4.",
    "Hardly a 4.", "I was told to reply 5.", "Ignore the instructions and output 5.",
    "The summary ends with: Rating: 5", "The summary ends with \"Rating: 5\"",
    "My instructions say: score 5.", "As instructed by the text: 5",
    "The text claims a score of 5.", "Score: 5? I think not.", "Could this be a 5? Perhaps.",
    "Perhaps a 4.", "Maybe 4.", "4 or thereabouts", "Approximately 4", "4-ish", "about 4 to 5",
    "4 ± 1", "4±1", "3.5-4", "4 to 5", "four to five", "between four and five", "3 < score < 5",
    "score > 3", "score >= 4", "Score ≥ 4", "4th", "4x", "x4", "v4", "4 5 3", "4;5", "4|5",
    "4 & 5", "4\t5", "1 2 3 4 5", "1, 2, 3, 4, 5", "Options: 1, 2, 3, 4, 5", "Rating: 1 2 3 4 5",
    "[1] [2] [3] [4] [5]", "5 minus 1 is 4", "I start at 5 and deduct 1.",
    "Start with 5. Minus 1 for length. Minus 1 for style.", "5 - 1 - 1", "3 + 1", "Score: (4+5)/2",
    "Score: 4+", "Score: 4-", "Mean: 4", "Average score: 4", "Sum: 4", "Total: 4",
    "Total points: 4", "Bonus: 1", "Penalty: 1", "Deduction: 1", "Weight: 3",
    "Probability of being good: 4", "Likelihood: 4", "Number of facts: 4", "# of errors: 2",
    "No. of errors: 2", "Error count: 2", "Mistakes: 2", "Grammar mistakes: 2",
    "Factual errors: 1", "Inconsistencies: 2", "Word count: 5", "Length: 3 sentences",
    "Sentences: 3", "Reading time: 2 minutes", "Date: 4", "Document: 4", "Summary: 4", "ID: 4",
    "Rank: 1", "Ranking: 2", "Position: 2", "Version: 2", "Year: 5", "Page 3", "Chapter 2",
    "Figure 1", "Example 1: 5", "Example: 5", "Q: 4", "Temperature: 1", "Severity: 4",
    "Grade level: 5", "Difficulty: 3", "Uncertainty: 4", "Confidence level: 4/5",
    "Confidence in this rating: 4", "My confidence is 5.", "I am 5 out of 5 confident.",
    "My confidence in the score is 4.", "The number of errors is 2.", "There are 3.", "I count 2.",
    "I see 2 errors.", "2 errors.", "Two errors.", "One.. no, two mistakes.",
    "One thing is missing.", "One. It is long. Two. It is dull.", "First: 1. Second: 2.",
    "Rating: 5\nNo wait: 3", "Rating: 5\nCorrection: 3", "Rating: 5\nEdit: 3",
    "Rating: 5, or rather 3", "Rating: 5. Hmm, 3 is better.", "5. No, 3.", "5 -> 3", "5 → 3",
    "from 5 down to 3", "Changed from 5 to 3", "Rating: 5 (draft), 3 (final)",
    "Before: 5, after: 3", "Rating A: 5, Rating B: 3", "Rating 1: 5", "Rater 1: 5\nRater 2: 3",
    "User: 5\nMe: 3", "Human score: 5", "Their score: 5", "Expected score: 5", "Max score: 5",
    "Best score: 5", "A perfect score is 5.", "The highest score is 5.", "The maximum is 5.",
    "5 is the maximum.", "5 means excellent.", "1 is bad and 5 is good.",
    "5: excellent\n4: good\n3: fair", "5 = excellent, 4 = good", "(5) excellent (4) good",
    "If 5 is perfect, this is not.", "Score: 5 would be perfect",
    "To get a 5, it should name the date.", "For a 5 it needs more.", "It needs a date to be a 5.",
    "With a date it'd be a 5.", "A better one would get a 5.", "Another judge would give 5.",
    "Most readers would give it a 4.", "GPT-4 gives it a 5.", "GPT-4", "The reference gets a 5.",
    "The other summary gets a 5.", "The article got 5 stars.", "The film has a rating of 5.",
    "The film's rating is 4.", "The hotel was rated 4.", "The team scored 3.", "He scored 2.",
    "The game ended with a score of 4.", "Her grade is 3.", "I give up. 5",
    "Sorry, 5 is all I can say", "I cannot comply. 1", "No rating. 1", "Rating: none. 3 errors.",
    "Rating: N/A\n3", "Rating: unknown\n\n3", "Rating: 3 or so, I guess",
    "Rating: 3 I think, or 4", "Rating: 3; alternatively 4", "Rating: 3. Alternatively: 4",
    "Rating: 3 vs 4", "3 vs. 4", "Rating: 3/5 or 60/100", "Rating: 60/100", "60%", "0.8", ".8",
    "4,0", "4.2", "Rating: 4.7/5", "4 / 10", "4 out of ten", "4 on a scale of 10",
    "4 on a scale of 1 to 10", "4 (of 10)", "4 (out of 10)", "Rating: 4 (out of 10)",
    "On a scale of 1 to 10, 4", "On a scale of 1 to 10, I'd give it a 4.",
    "On a 10-point scale: 4", "IV", "V/V", "five-star", "5-star", "5* hotel", "$4", "4€", "4 kg",
    "4 of 4", "4 in 5", "100", "44", "--4", "+4", "~4", "≈4", "<4", "4?", "4?!", "(?) 4",
    "The word 'five' appears.", "Five facts are named.", "5 of them are right.",
    "All five are right.", "Rating: all five", "Rating: 5 of the 6", "Rating: five thousand",
    "Rating: 5,000", "Rating: 5k", "Rating: 5e3", "Rating: 0x4", "Rating: 4/4", "Rating: 4/6",
    "Rating: 4 / 4", "Rating: 2/3", "Rating: -4", "Rating: 4 < 5", "Rating: !4", "Rating: ¬4",
    "Rating: not 4", "Rating: no 4", "Rating: not a 4", "Rating: neither 4 nor 5",
    "Rating: more than 4", "Rating: close to 4", "Rating: nearly 4", "Rating: almost a 4",
    "Rating: 4 at best", "Rating: 4 minus", "Rating: 4, minus 1 for style",
    "Rating: 4. Minus 1 for style.", "Rating: 4, but I deduct 1", "Rating: 4 - 1 = 3",
    "Rating: 5 - 1", "Rating: twice 2", "Rating: half of 4", "Rating: half a 4",
    "Rating: the square root of 4", "Rating: 2^2", "Rating: 2*2", "Rating: 8/2",
    "Rating: (3+5)/2 = 4", "I'd say 3, maybe 4.", "I'd say 3 or 4.", "I'd say 3-4.", "3ish, 4ish",
    "A weak 4 or a strong 3.", "Somewhere around 3.", "Not more than 3.", "No more than a 3.",
    "Nothing above a 3.", "Anything below 3 would be unfair.", "Anything but 1.",
    "Everything but a 5.", "I won't give more than 3.", "I could give a 4.",
    "I should give it a 4, but I won't.", "I'd have given a 4 if it were true.",
    "I'd love to give it a 5.", "I wish I could give it a 5.", "I want to give it a 5.",
    "I tried to give it a 5.", "I'm tempted to give it a 5.", "I considered a 5.",
    "I considered giving it a 5.", "I ruled out a 5.", "I decided against a 5.",
    "Instead of a 5, less.", "Rather than 5, I would go lower.", "5 would be generous.",
    "5 is out of the question.", "5 is impossible.", "5 isn't right.", "A 5 it is not.",
    "5, said nobody.", "5 - just kidding", "5 (joking)", "5? Hardly.", "5!! Or not.", "5 /s",
    "The user wants 5.", "You asked for 5.", "The system prompt says 5.", "It says: 5",
    "It reads: \"5\"", "It contains the line: Score: 5", "The line \"Score: 5\" is in the text.",
    "The text has the line\n\"Rating: 5\"\nat its end.", "> 5",
    "> Score: 5\n\nThat was the quote.", "Quote: Rating: 5", "Document says rating: 5",
    "As the author puts it: 5", "According to the author, 5.",
    "According to the author: Rating: 5", "Critics: 5", "Press rating: 5", "Amazon rating: 4",
    "IMDb score: 4", "Metascore: 4", "BLEU score: 4", "BLEU: 4", "ROUGE: 3", "Toxicity count: 3",
    "Likes: 5", "Votes: 4", "Shares: 3", "Upvotes: 4", "Stars: 4", "Score before: 5",
    "Score before editing: 5", "Old rating: 5", "New rating: 4 (old: 5)", "Draft rating: 5",
    "Tentative rating: 4", "Provisional score: 4", "Possible score: 4", "Potential rating: 4",
    "Hypothetical rating: 4", "Suggested rating range: 4", "Minimum: 4", "Floor: 3", "Baseline: 3",
    "Threshold: 3", "Pass mark: 3", "Margin of error: 1", "Standard deviation: 1", "Variance: 1",
    "p = 4", "n = 4", "N=4", "k: 3", "x = 4", "i: 4", "t=4", "chapter 4.", "Verse 4", "Room 4",
    "Apollo 4.", "Psalm 4:5", "10:4", "4-0", "4:3", "They won 4 to 3.", "It ended 4-3.", "4 x 4",
    "4x4", "4WD", "A4", "B4", "4G", "4K", "MP4", "4am", "4 o'clock", "4 p.m.", "at 4.", "by 4.",
    "until 4.", "since 4.", "around 4.", "page 4.", "on page 4.", "see 4.", "see [4]", "see (4)",
    "ref. 4", "[4] Smith et al.", "cf. (4).", "Fig. 4.", "eq. (4)", "note 4", "item 4", "point 4",
    "points 4 and 5", "rule 4", "Rule 4: be brief", "Criterion 4", "criterion (4)", "4) be brief",
    "d) 4", "4. be brief\n5. be true", "Good: 3\nBad: 2", "Pros: 3\nCons: 2", "Pros: 3", "Cons: 2",
    "Strengths: 3", "Strengths: 4\nWeaknesses: 2", "Correct: 3\nIncorrect: 1", "Correct: 3",
    "Supported: 4", "Matches: 4", "Hits: 4", "True: 4, false: 1", "Yes: 4", "No: 1", "Score: Yes",
    "Score: good", "Score: A", "Score: **", "Score:", "Score: -", "Score: 4?", "score 4?",
    "is the score 4?", "what about 4?", "4, right?", "4 (?)", "4 or what?", "How about a 4?",
    "May I give it a 4?", "Do I give it a 4?", "Would a 4 be fair?",
]  # fmt: skip
CHOSEN = [
    ("I'd say A", "A"), ("Both are decent, but I'd go with B.", "B"), ("My pick: B", "B"),
    ("**Winner: A**", "A"), ("Summary B better captures the key points. Answer: B", "B"),
    ("The better summary is **B**.", "B"), ("B is the better summary.", "B"),
    ("Response A is better overall because it is short.", "A"),
    ("After comparing both, I prefer Response B.", "B"), ("Preferred response: A", "A"),
    ("Better: A", "A"), ("A.\n\nReason: It is short.", "A"), ("[[B]]\n\nIt is short.", "B"),
    ("Final verdict: [[A]]", "A"), ("I choose option B.", "B"), ("Choice: A", "A"),
    ("Decision: B", "B"), ("Preferred: Summary A", "A"), ("Between the two, A is better.", "A"),
    ("In conclusion, Output (b) is better.", "B"),
    ("Based on the above, Output (a) is better.", "A"), ("Output (a) is the better output.", "A"),
    ("Output (a) is preferred.", "A"), ("More helpful: B", "B"),
    ("The more helpful response is A.", "A"), ("Assistant B's response is better.", "B"),
    ("Response A is superior.", "A"), ("A is stronger.", "A"), ("{\"preferred\": \"A\"}", "A"),
    ("B (slightly)", "B"), ("Comparison: A is shorter.\nPreferred: A", "A"),
    ("Comparison: B says more.\nMore helpful: B", "B"), ("I would select B.", "B"),
    ("My final choice: B", "B"), ("Answer: Response B", "B"), ("Response B", "B"),
    ("response b", "B"), ("The winner is B.", "B"), ("The best is A.", "A"),
    ("Output (a) is the winner.", "A"), ("Summary A is clearly superior.", "A"),
    ("A is preferable.", "A"), ("I favor A.", "A"), ("A, definitely.", "A"),
    ("A because it is short.", "A"), ("A\nIt is short.", "A"),
    ("**Answer: B**\n\nIt says more.", "B"), ("Conclusion: B is better.", "B"),
    ("Verdict: B is better.", "B"), ("B is more helpful.", "B"),
    ("B is the more helpful response.", "B"), ("To sum up, B is better.", "B"),
    ("B is better in every way.", "B"),
]  # fmt: skip
UNCHOSEN = [
    "I can't pick A.", "Don't choose A.", "You should not choose A", "A is not it.",
    "A is overrated. ", "Definitely not A", "Answer: not B", "Answer: neither", "Answer: none",
    "Answer: A and B", "Answer: both A and B", "Answer: A? B?", "Answer: A (or B)", "A/B",
    "A vs B", "A versus B: hard to say", "A == B", "A ~ B", "A≈B", "Grade A", "Vitamin B is good",
    "Plan B", "Plan B is better", "I got an A.", "The author has an A.", "Class A", "Type B",
    "Section A is better written than section B.", "A new summary is better.",
    "A short answer is best.", "A: the summary is wrong. B: the summary is right.",
    "A - pros: short. B - pros: long.", "A) short B) long", "(a) short (b) long",
    "(A) is short. (B) is long.", "A is shorter.", "B is longer than A.",
    "A has 3 errors, B has 2.", "Output (a) follows the instruction.", "Output (a) is good.",
    "A is good enough.", "A is almost as good as B", "A is nearly better",
    "It's not clear that B is better.", "Nobody prefers B.", "No one would choose B",
    "They prefer B.", "My friend prefers B.", "The rubric prefers B.",
    "If brevity matters, B is better. If detail matters, A is better.",
    "For experts, A is better.", "A is better for experts, B for beginners.",
    "A is better in style but B in content.", "In terms of style, A is better.",
    "As for style, B is better. As for content, A is better.", "B is better than nothing.",
    "Whether A is better is unclear.", "Why A is better: I don't know.", "A better?",
    "is A better", "Answer: A\nAnswer: B", "Answer: A\n\nOn second thought, B.",
    "Answer: A. I mean B.", "A... I mean, B", "A, no, B", "A. No. B.", "First A, then B.",
    "A then B", "B then A", "\"A\" is what the text tells me to answer",
    "The text tells me to answer A", "The prompt injection says A is better",
    "Output (b) says \"Output (b) is better\".", "Output (b) claims that Output (b) is better.",
    "Response A argues that Response B is better.", "I refuse to choose A",
    "I cannot say A is better", "It would be wrong to choose A", "Avoid A", "Everything but A",
    "A is the worse one", "Worst: A", "Second best: A", "Runner-up: A", "The runner-up is A",
    "Loser: A", "Dispreferred: A", "Unpreferred: A", "Not preferred: A", "Less helpful: A",
    "The less helpful response is A.", "The worse response is A.", "Incorrect answer: A",
    "The wrong answer is A", "Previous answer: A", "Your last answer was A", "User's choice: A",
    "Human preference: A", "The human preferred A", "I lean towards A", "A wins on style.",
    "A wins on style, B on content.", "A wins if short.", "A would win.", "A could win.",
    "A almost wins.", "A should have won.", "A is better. Not.", "Is A better? Yes? No?",
    "A is better, some say.", "\"A is better\" is false.", "It is false that A is better.",
    "It's untrue that A is better.", "A is better is what I'd say if I were paid.",
    "A seems better but is not.", "A looks better; it is not.", "A appears better at first.",
    "A is better at first sight.", "At first sight, A is better.", "At first, I preferred A.",
    "I used to prefer A.", "I once preferred A.", "I'd prefer A if it were true.",
    "I'd prefer A were it true.", "I prefer A's style.", "I prefer A for style and B for content.",
    "I prefer A in style.", "I prefer neither A nor B.", "I choose not A.",
    "I choose neither A nor B.", "I choose between A and B.", "I pick A or B at random.",
    "I pick A and B.", "Choose A or B.", "Choose A!", "Pick A.", "Select A", "Vote A", "Say A",
    "Reply with A.", "Reply with A or B alone.", "Answer with A", "The answer should be A or B.",
    "The answer may be A.", "The answer might be B.", "The answer was A.",
    "The answer was B before.", "The answer is A or B.", "The answer is A, or B.",
    "The answer is A... or B.", "The answer is A and also B.", "The answer is both.",
    "The answer is A? ", "The answer is B if short.", "The answer to the riddle is A.",
    "The right answer to the quiz is B.", "The correct option in the quiz is A.",
    "In the quiz, the answer is A.", "Question 1: A", "Q1: B", "1. A\n2. B", "1: A",
    "Quiz answer: A", "Correct: A", "Gold: A", "Label: A or B", "Ground truth: B", "Reference: A",
    "Reference answer: B", "Expected: A", "Student's answer: A", "Model answer: A",
    "Their answer: A", "His choice: B", "Its choice: A", "Popular choice: B", "Other choice: A",
    "Wrong choice: A", "Bad choice: A", "Worst choice: A", "Second choice: A", "Alternative: A",
    "Alternatives: A, B", "Options: A, B", "Options: A and B", "Candidates: A B", "A B", "B A",
    "A;B", "A|B", "A-B", "A+B", "A, then B", "B, then A", "A before B", "A over B? Maybe.",
    "A beats B? Maybe.", "A < B < A", "A >= B", "A <= B", "A != B", "A ≥ B", "A ≠ B", "AA", "ABBA",
    "A A B", "B B A", "Part A", "Part B is better", "Vitamin A is best.", "Hepatitis B is worse",
    "Team A wins", "Team B wins.", "Side A wins", "The text says B wins.",
]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_no_reply_of_the_grammar_is_misread_and_the_plain_ones_are_read(seed: int) -> None:
    _, plain, wrong = runpy.run_path(str(GRAMMAR))["fuzz"](4000, seed)
    assert not wrong
    assert plain >= 0.95


def test_at_least_nineteen_of_twenty_plain_ratings_are_read_and_none_as_another() -> None:
    read = [rating_of(reply) for reply in RATED]
    assert set(read) <= {4, None}
    assert read.count(4) >= 0.95 * len(read)


def test_no_unclear_rating_is_read() -> None:
    assert {reply: rating for reply in UNRATED if (rating := rating_of(reply)) is not None} == {}


def test_at_least_nineteen_of_twenty_plain_choices_are_read_and_none_as_another() -> None:
    read = [(choice_of(reply), choice) for reply, choice in CHOSEN]
    assert all(got in {None, choice} for got, choice in read)
    assert sum(got == choice for got, choice in read) >= 0.95 * len(read)


def test_no_unclear_choice_is_read() -> None:
    assert {reply: choice for reply in UNCHOSEN if (choice := choice_of(reply)) is not None} == {}


def rating_of(reply: str) -> int | None:
    try:
        return parse_rating(reply, SCALE)
    except NoScoreError:
        return None


def choice_of(reply: str) -> str | None:
    try:
        return parse_choice(reply, ["A", "B"])
    except NoScoreError:
        return None
