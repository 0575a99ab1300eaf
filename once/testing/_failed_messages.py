"""The messages that fail in one delivery, and the error that a test is shown for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from once.deadline import Deadline
from once.errors import OnceError, Unexpected
from once.failures.failure_handler import FailureHandler
from once.intake.reader import Delivery, Disposition

_REMEDY = (
    "FakeAws.deliver raises the error of the first message that fails. If the test expects it, "
    "write pytest.raises, or deliver(…, fails=True) to look at the answer and at dead_letters()"
)


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A message that was neither committed nor a duplicate."""

    message_id: str
    error: OnceError
    disposition: Disposition

    def text(self, order: Sequence[str]) -> str:
        """Return one line: its place in the batch, what became of it, and its error."""
        place = f"message {order.index(self.message_id) + 1} of {len(order)}"
        ending = f"dead-lettered as {self.error.reason}"
        if self.disposition is not Disposition.QUARANTINED:
            ending = "returned to the queue"
        return f"{place}: {ending}: {type(self.error).__name__}: {self.error}"


@contextmanager
def failed_messages() -> Iterator[list[FailedMessage]]:
    """Yield a list that receives each message that fails.

    A message that commits after an error is not in it: a handler runs again if another message
    changes the items that it reads.
    """
    found: list[FailedMessage] = []
    handle = FailureHandler.handle

    def noting(
        self: FailureHandler, delivery: Delivery, error: OnceError, deadline: Deadline
    ) -> Disposition:
        disposition = handle(self, delivery, error, deadline)
        found.append(FailedMessage(delivery.record.message_id, error, disposition))
        return disposition

    with patch.object(FailureHandler, "handle", noting):
        yield found


def shown_error(failed: Sequence[FailedMessage], order: Sequence[str]) -> BaseException:
    """Return the error of the first failed message, with a note about each.

    Args:
        failed: the messages that failed.
        order: the ids of all messages of the batch.
    """
    first = min(failed, key=lambda each: order.index(each.message_id)).error
    # The traceback of an unknown exception ends where the handler raised it.
    shown = first.__cause__ if isinstance(first, Unexpected) and first.__cause__ else first
    for each in sorted(failed, key=lambda each: order.index(each.message_id)):
        shown.add_note(each.text(order))
    shown.add_note(_REMEDY)
    return shown
