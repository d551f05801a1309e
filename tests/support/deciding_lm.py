"""An LM in this process that DSPy asks typed questions, as `dspy.experimental.TypeSafe`."""

from collections.abc import Mapping
from typing import Any

from decision_server import Opinion, believe, options_of


class DecidingLM:
    """Answers by an opinion as the server of decision models does, and keeps what it was asked.

    `base_url` and `api_key` are what a judge reads of it, which asks the server itself.
    """

    supports_decision_requests = True

    def __init__(self, opinion: Opinion = believe, base_url: str = "", api_key: str = "") -> None:
        self.opinion, self.base_url, self.api_key = opinion, base_url, api_key
        self.model = "jev"
        self.requests: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []

    def __call__(self, state: Mapping[str, Any], questions: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append((state, questions))
        answers: dict[str, Any] = {}
        for name, question in questions.items():
            options = options_of(question)
            p = self.opinion(state, name, options)
            by_option = dict(zip(options, p, strict=True))
            answers[name] = {"probabilities": by_option, "confidence": max(p)}
            if question["type"] == "noul":
                answers[name] = {"noul": p[0]}
        return answers

    async def acall(self, state: Mapping[str, Any], questions: Mapping[str, Any]) -> dict[str, Any]:
        return self(state, questions)
