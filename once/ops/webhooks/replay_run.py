"""Run of a replay: each webhook is read, judged and sent; what became of each is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from once.events.dedup_key import key_hash
from once.ops.aws.clients import RateLimiter
from once.ops.errors import OpsError, unexpected_error_text
from once.ops.webhooks._http_post import NotSent, Unanswered, Unsendable
from once.ops.webhooks._replay_targets import Target
from once.ops.webhooks.capture_store import CaptureStore
from once.ops.webhooks.capture_text import capture_line
from once.webhooks.capture import Capture

MOST_FAILURES = 3
"""After so many webhooks in a row that could not be sent, the rest is not tried."""


class Outcome(StrEnum):
    """Outcome of a replay for one webhook."""

    SENT = "sent"
    WOULD_BE_SENT = "would-be-sent"
    NOT_SENT = "not-sent"
    REFUSED = "refused"
    """The receiver has it, and answered with an error."""
    PERHAPS_SENT = "perhaps-sent"


DONE = {Outcome.SENT, Outcome.WOULD_BE_SENT}


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one webhook; `detail` is the answer, or the reason why it was not sent.

    `answered` is false if the target took no request, or gave no answer.
    """

    capture: Capture
    outcome: Outcome
    detail: str
    answered: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {
            "endpoint": self.capture.endpoint,
            "webhook_id": self.capture.webhook_id or None,
            "type": self.capture.webhook_type or None,
            "key_hash": key_hash(self.capture.pk),
            "outcome": str(self.outcome),
            "detail": self.detail,
        }

    def __str__(self) -> str:
        words = str(self.outcome).replace("-", " ")
        more = f": {self.detail}" if self.detail else ""
        return f"{capture_line(self.capture)}  {words}{more}"


@dataclass(slots=True)
class ReplayRun:
    """A replay.

    Attributes:
        store: reads whole captures.
        target: takes the webhooks.
        limiter: limits the rate.
        dry_run: whether nothing is sent.
        results: what became of each webhook so far.
    """

    store: CaptureStore
    target: Target
    limiter: RateLimiter
    dry_run: bool
    results: list[Result] = field(default_factory=list)

    def run(self, captures: Sequence[Capture], seen: Callable[[], object]) -> None:
        """Send webhooks in their order.

        Args:
            captures: the webhooks, as the index has them.
            seen: called after each.

        Raises:
            OpsError: several in a row could not be sent.
        """
        failures = 0
        for capture in captures:
            result = self._result(capture)
            self.results.append(result)
            seen()
            failures = 0 if result.answered else failures + 1
            if failures == MOST_FAILURES:
                raise OpsError(
                    f"{failures} webhooks in a row could not be sent, and the rest was not tried: "
                    f"{result.detail}"
                )

    def number(self, *outcomes: Outcome) -> int:
        """Return the number of webhooks with one of these outcomes."""
        return sum(one.outcome in outcomes for one in self.results)

    def _result(self, listed: Capture) -> Result:
        try:
            capture = self.store.get(listed.pk)
            prepared = self.target.prepare(capture, self.store.body(capture))
        except OpsError as error:
            return Result(listed, Outcome.NOT_SENT, str(error))
        except Exception as error:  # one capture must not stop the replay
            return Result(listed, Outcome.NOT_SENT, unexpected_error_text(error))
        if self.dry_run:
            return Result(listed, Outcome.WOULD_BE_SENT, "")
        self.limiter.wait(1)
        return self._sent(listed, prepared)

    def _sent(self, listed: Capture, prepared: Any) -> Result:
        try:
            return Result(listed, Outcome.SENT, self.target.send(prepared))
        except Unsendable as error:
            return Result(listed, Outcome.NOT_SENT, str(error))
        except NotSent as error:
            return Result(listed, Outcome.NOT_SENT, str(error), answered=False)
        except Unanswered as error:
            return Result(listed, Outcome.PERHAPS_SENT, str(error), answered=False)
        except OpsError as error:
            return Result(listed, Outcome.REFUSED, str(error))
        except KeyboardInterrupt:
            self.results.append(Result(listed, Outcome.PERHAPS_SENT, "stopped meanwhile"))
            raise
