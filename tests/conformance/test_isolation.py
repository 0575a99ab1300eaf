"""The handler's logs and settings stay apart from the caller's."""

import logging
import sys
import warnings

import pytest

from redelivery.check import isolated


def test_the_callers_log_handlers_and_filters_are_untouched(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:], warnings.filters[:])
    with isolated():
        logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format="%(message)s")
        logging.getLogger("app").debug("logged")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert (root.level, root.handlers, warnings.filters[:]) == before
    assert caplog.records == []
    assert capsys.readouterr() == ("logged\n", "")
