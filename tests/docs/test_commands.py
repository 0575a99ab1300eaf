"""Every documented shell command is run by a test, or is parsed and says why it is not run."""

import re
import subprocess

import botocore.session
import pytest

from docs.site.command_reference import commands
from once.ops.__main__ import app
from tests.architecture.imports import ROOT
from tests.docs.documented_commands import PARSED, RUN_BY, documented, lines, names
from tests.docs.test_references import unknown_words

DOCUMENTED = documented()
OURS = [line for line in DOCUMENTED if not line.startswith("aws ")]
AWS = [line for line in DOCUMENTED if line.startswith("aws ")]
TARGETS = {name for line in OURS for name in names(line) if name.startswith("make ")}
OWN = {"--query", "--output", "--region", "--profile", "--notification-endpoint"}
"""Options that the AWS CLI has and the services' models have not."""


@pytest.mark.parametrize("line", OURS)
def test_a_documented_command_has_a_test(line: str) -> None:
    missing = [name for name in names(line) if name not in {*RUN_BY, *PARSED}]
    assert missing == [], "name the test that runs it in tests/docs/documented_commands.py"


def test_every_command_of_once_has_a_test() -> None:
    assert set(commands(app, "once")) - set(RUN_BY) == set()


@pytest.mark.parametrize("command", RUN_BY)
def test_the_named_test_exists_and_has_the_words_of_the_command(command: str) -> None:
    file, _, test = RUN_BY[command].partition("::")
    text = (ROOT / file).read_text()
    assert f"def {test or 'test_'}" in text
    if command.startswith("once "):
        words = command.split()[1:]
        folder = "".join(p.read_text() for p in (ROOT / file).parent.rglob("*.py"))
        page = "" if "newcomer" not in file else (ROOT / "docs/new-consumer.md").read_text()
        assert [word for word in words if word not in folder + page] == []


@pytest.mark.parametrize("line", [line for line in OURS if line.startswith("once ")])
def test_the_options_of_a_documented_command_exist(line: str) -> None:
    assert unknown_words(line.removeprefix("once ")) == []


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_make_knows_a_target(target: str) -> None:
    command = ["make", "-n", "--no-print-directory", target.split()[1], "ACCOUNT=111122223333"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", AWS)
def test_a_command_of_the_aws_cli_has_its_operation_and_parameters(line: str) -> None:
    assert unknown_aws_words(line) == []


def unknown_aws_words(line: str) -> list[str]:
    """Return the words of an AWS CLI command that AWS's own model of the service does not have."""
    _, service, command, *_ = line.split()
    model = botocore.session.get_session().get_service_model(service)
    operations = {botocore.xform_name(name, "-"): name for name in model.operation_names}
    if command not in operations:
        return [command]
    shape = model.operation_model(operations[command]).input_shape
    members = shape.members if shape else {}
    known = {f"--{botocore.xform_name(name, '-')}" for name in members} | OWN
    return [word for word in re.findall(r"(?<=\s)--[a-z-]+", line) if word not in known]


def test_what_is_not_documented_or_unknown_is_detected() -> None:
    assert names("once lost") == ["once lost"]
    assert names("make lost") == ["make lost"]
    assert [*lines("a; once status  # text\nmake a && pip install b")] == [
        "once status",
        "make a",
        "pip install b",
    ]
    assert unknown_aws_words("aws sqs lose-queue") == ["lose-queue"]
    assert unknown_aws_words("aws sqs delete-queue --queue-name a") == ["--queue-name"]
    assert len(DOCUMENTED) > 20
