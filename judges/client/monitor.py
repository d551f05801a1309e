"""Stop a run in which almost all requests fail from the beginning."""

from judges.protocol import FatalModelError

# A run stops once it has this many responses and at least this share of them are failures.
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9


class FailingRunError(FatalModelError):
    """Raised to stop a run early, before it costs much, if almost every request fails."""


class FailureMonitor:
    """Counts the responses of a run; `add` raises FailingRunError if almost all are failures."""

    def __init__(self) -> None:
        self.n_responses = self.n_failed = 0

    def has_room(self, n_in_flight: int) -> bool:
        """Return whether another request may be sent while `n_in_flight` are in flight.

        Until a first request succeeds, only as many requests are sent as `add` needs to decide
        whether to stop the run.
        """
        if self.n_responses >= MIN_RESPONSES:
            return True
        return self.n_failed < self.n_responses or self.n_responses + n_in_flight < MIN_RESPONSES

    def add(self, error: str | None) -> None:
        self.n_responses += 1
        self.n_failed += error is not None
        limit = MAX_FAILURE_RATE * self.n_responses
        if error is not None and self.n_responses >= MIN_RESPONSES and self.n_failed >= limit:
            raise FailingRunError(
                f"{self.n_failed} of the first {self.n_responses} judgements failed, as in: "
                f"{error}; fix the model or the judge"
            )
