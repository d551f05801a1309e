"""Stop a run in which almost all requests fail from the beginning."""

from judges.protocol import FatalModelError

# A run stops once it has this many responses and at least this share of them are failures.
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9


class FailureMonitor:
    """Counts the responses of a run; `add` raises FatalModelError if almost all are failures."""

    def __init__(self) -> None:
        self.n_responses = self.n_failed = 0

    def add(self, error: str | None) -> None:
        self.n_responses += 1
        self.n_failed += error is not None
        limit = MAX_FAILURE_RATE * self.n_responses
        if error is not None and self.n_responses >= MIN_RESPONSES and self.n_failed >= limit:
            raise FatalModelError(
                f"{self.n_failed} of the first {self.n_responses} judgements failed, as in: "
                f"{error}; fix the model or the judge"
            )
