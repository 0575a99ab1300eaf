"""The self-check judges every control, once in a Python process."""

import pytest

from redelivery import Subject, self_check
from redelivery.examination import Examination, examine


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The handlers that the self-check examines."""
    handlers: list[str] = []

    def listed(subject: Subject, only: list[str]) -> Examination:
        handlers.append(subject.handler)
        return examine(subject, only=only)

    monkeypatch.setattr(self_check, "examine", listed)
    self_check._is_judged_rightly.cache_clear()
    return handlers


def test_controls_are_judged_rightly_and_run_once(examined: list[str]) -> None:
    first, second = self_check.self_check(), self_check.self_check()
    assert first == second == {control.name: True for control in self_check.CONTROLS}
    assert len(examined) == len(first)
