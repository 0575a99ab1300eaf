"""A check: the scenarios of a subject, judged against its clean runs."""

import logging
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from redelivery.report import Report
from redelivery.subject import Subject


@contextmanager
def isolated() -> Iterator[None]:
    """Keep the caller's log handlers and warning filters apart from the handler's.

    A handler configures the root logger as if it were alone, and a filter that turns warnings
    into errors would change what it does.
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = []
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


def check(
    subject: Subject,
    *,
    seed: int = 1,
    only: Collection[str] = (),
    replay: str = "",
    tell: Callable[[int], None] = lambda _: None,
) -> Report:
    """Run the scenarios of a subject.

    Args:
        subject: the handler and what it needs.
        seed: draws values and interleavings; the same seed draws the same.
        only: names of faults; empty for all.
        replay: the name of one scenario, as a report has it.
        tell: told how many scenarios have ended.

    Raises:
        SubjectError: the subject is wrong, or its handler fails without any fault.
    """
    # The engine imports AWS SDK and simulator: pytest loads this module in every run.
    from redelivery.child import examine_in_child
    from redelivery.examination import examine

    began = time.monotonic()
    with isolated():
        run: Callable[..., Report] = examine
        more = {}
        if not replay and hasattr(os, "fork"):
            run, more = examine_in_child, {"progress": tell}
        report = run(subject, seed=seed, only=only, replay=replay, **more)
    return replace(report, seconds=time.monotonic() - began)
