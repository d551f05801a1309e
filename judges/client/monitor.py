"""Stop a run in which almost all requests fail from the beginning."""

from dspy_judges.errors import option_name
from judges.protocol import FatalModelError

# A run stops after at least this many responses, if at least this share of them are failures.
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9


class FailingRunError(FatalModelError):
    """Almost every request of a run fails, so the run stops before it costs much."""


class FailureMonitor:
    """Counts the responses of a run; `record` raises FailingRunError if almost all are failures."""

    def __init__(self, *, has_store: bool = False) -> None:
        self.n_responses = self.n_failed = 0
        # The store keeps the replies, so that the same command would fail again.
        self._advice = f", then name another {option_name('out')}" if has_store else ""

    def may_send_more(self, n_pending: int) -> bool:
        """Return whether another request may be sent while `n_pending` are not recorded yet.

        Until a request succeeds, only MIN_RESPONSES requests are sent, with which `record` can
        decide whether to stop the run.
        """
        if self.n_responses >= MIN_RESPONSES:
            return True
        return self.n_failed < self.n_responses or self.n_responses + n_pending < MIN_RESPONSES

    def record(self, error: str | None) -> None:
        self.n_responses += 1
        self.n_failed += error is not None
        limit = MAX_FAILURE_RATE * self.n_responses
        if error is not None and self.n_responses >= MIN_RESPONSES and self.n_failed >= limit:
            raise FailingRunError(
                f"{self.n_failed} of the first {self.n_responses} judgements failed, as in: "
                f"{error}; fix the model or the judge{self._advice}"
            )
