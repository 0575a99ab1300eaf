"""Without a terminal, long work prints a line now and then; on one, a line is redrawn."""

import io
import re
import time

import pytest
from rich.console import Console

from emulator.local.steps import step


class Output(io.StringIO):
    """An output that can wait for a text."""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 120
        while text not in self.getvalue():
            assert time.monotonic() < deadline, self.getvalue()
            time.sleep(0.005)


@pytest.fixture
def output() -> Output:
    return Output()


def console(output: Output, *, terminal: bool = False) -> Console:
    return Console(file=output, force_terminal=terminal, width=100)


def test_without_a_terminal_a_line_says_how_far_it_is(output: Output) -> None:
    with step("deploying", console=console(output), total=20, line_seconds=0.01) as shown:
        shown.advance(5)
        output.wait_for("deploying: 5/20, 0 s")
        shown.show("once-state 3/17")
        output.wait_for("deploying: once-state 3/17: 5/20, 0 s")
    assert output.getvalue().startswith("deploying …\n")
    assert re.search(r"^deploying: \d\.\d s\n\Z", output.getvalue(), re.MULTILINE)


def test_a_failed_step_is_not_reported_as_done(output: Output) -> None:
    with pytest.raises(ValueError, match="no"), step("deploying", console=console(output)):
        raise ValueError("no")
    assert output.getvalue() == "deploying …\n"
