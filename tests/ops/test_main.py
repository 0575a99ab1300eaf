"""The root of the command line: its version, and completion by the shell."""

from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from once.ops.__main__ import app
from once.ops.aws.deployment import Deployment
from once.ops.errors import ExitCode
from tests.ops.output import stderr_of, stdout_of


def test_version_is_that_of_the_distribution() -> None:
    assert stdout_of("--version") == f"once {version('once-consumer')}\n"


def test_ctrl_c_ends_any_command_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(service: str) -> Deployment:
        raise KeyboardInterrupt

    monkeypatch.setattr(Deployment, "find", stop)
    assert "run the same command again" in stderr_of("dlq", "list", code=ExitCode.STOPPED)


@pytest.mark.parametrize(("typed", "completed"), [("once d", "dlq"), ("once dlq red", "redrive")])
def test_shell_completes_commands(typed: str, completed: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    answer = CliRunner().invoke(
        app, prog_name="once", env={"_ONCE_COMPLETE": "complete_bash", **words}
    )
    assert answer.stdout.split() == [completed]
