"""The exceptions of handlers that the library does not know, collected for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from once.deadline import Deadline
from once.disposition import Disposition
from once.errors import OnceError, Unexpected
from once.failures.failure_handler import FailureHandler
from once.intake.reader import Delivery


@contextmanager
def unexpected_errors() -> Iterator[list[BaseException]]:
    """Yield a list that receives each unknown exception for which a message fails.

    An exception after which the message commits is not in it: a handler runs again if another
    message changes the items that it reads.
    """
    found: list[BaseException] = []
    handle = FailureHandler.handle

    def noting(
        self: FailureHandler, delivery: Delivery, error: OnceError, deadline: Deadline
    ) -> Disposition:
        if isinstance(error, Unexpected) and error.__cause__ is not None:
            found.append(error.__cause__)
        return handle(self, delivery, error, deadline)

    with patch.object(FailureHandler, "handle", noting):
        yield found
