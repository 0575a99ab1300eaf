"""A check: every scenario of a subject, judged against its clean runs."""

from collections.abc import Collection

from redelivery.report import Report
from redelivery.subject import Subject


def check(
    subject: Subject, *, seed: int = 1, only: Collection[str] = (), replay: str = ""
) -> Report:
    """Run the scenarios of a subject.

    Args:
        subject: the handler and what it needs.
        seed: draws values and interleavings; the same seed gives the same report.
        only: names of faults; empty for all.
        replay: the name of one scenario, as a report has it.

    Raises:
        SubjectError: the subject is wrong, or its handler fails without any fault.
    """
    raise NotImplementedError
