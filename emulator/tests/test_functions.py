"""A function in the embedded AWS: the Python of its package, and what is known of a failed load."""

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from emulator.embedded_aws import EmbeddedAws
from emulator.local.code_update import DeployedCode, load_functions
from emulator.local.function_logs import FunctionLogs
from once.ops.aws.function_logs import start_errors

PYTHON = '#!/bin/sh\nSTARTED_AS=$0 exec {} "$@"\n'
SOURCES = {
    "reports": "import os\nloaded = os.environ.get('STARTED_AS')\n"
    "def handler(event, context):\n    return [loaded, event]\n",
    "isolated": "def handler(event, context):\n    import ministack\n",
    "imports": "import not_there\n",
    "lines": "raise ValueError('one\\ntwo')\n",
    "breaks": "def (\n",
    "exits": "raise SystemExit('over')\n",
    "misses": "",
    "checks": "import sys, types\nclass Entry(types.ModuleType):\n    @property\n"
    "    def handler(self):\n        raise ValueError('taken')\n"
    "sys.modules[__name__].__class__ = Entry\n",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that says how it was started: another one than that of the embedded AWS."""
    program = tmp_path_factory.mktemp("bin") / "python"
    program.write_text(PYTHON.format(sys.executable))
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def errors(aws: EmbeddedAws, python: Path) -> dict[str, str]:
    """Make the functions and load them; return their errors."""
    service = {"Service": "lambda.amazonaws.com"}
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": service}
    role = aws.client("iam").create_role(
        RoleName="any", AssumeRolePolicyDocument=json.dumps({"Statement": [trust]})
    )
    for name, source in SOURCES.items():
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as package:
            package.writestr("module.py", source)
            package.writestr(".python", str(python))
        aws.client("lambda").create_function(
            FunctionName=name,
            Runtime="python3.11",
            Role=role["Role"]["Arn"],
            Handler="module.handler",
            Code={"ZipFile": code.getvalue()},
        )
    return load_functions(aws, [DeployedCode(name, "") for name in SOURCES])


def invoke(aws: EmbeddedAws, name: str) -> Any:
    answer = aws.client("lambda").invoke(FunctionName=name, Payload=b"{}")
    return json.loads(answer["Payload"].read())


@pytest.mark.usefixtures("errors")
def test_it_runs_on_the_python_of_its_package_and_imports_nothing_of_the_embedded_aws(
    aws: EmbeddedAws, python: Path
) -> None:
    assert invoke(aws, "reports") == [str(python), {}]
    assert invoke(aws, "isolated")["errorMessage"] == "No module named 'ministack'"


def test_functions_are_loaded_without_a_call_of_their_handlers(errors: dict[str, str]) -> None:
    assert errors == {
        "imports": "Runtime.ImportModuleError: Unable to import module 'module': "
        "No module named 'not_there'",
        "lines": "ValueError: one\ntwo",
        "breaks": "Runtime.UserCodeSyntaxError: Syntax error in module 'module': "
        "invalid syntax (module.py, line 1)",
        "exits": "Runtime.ExitError: module 'module' ended the process (over)",
        "misses": "Runtime.HandlerNotFound: Worker init failed: module 'module' has no attribute "
        "'handler'",
        "checks": "ValueError: taken",
    }


def test_the_log_and_the_status_have_the_error(
    aws: EmbeddedAws, errors: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("once.ops.aws.function_logs.client", aws.client)
    client = aws.client("logs")
    logged = [entry.text for entry in FunctionLogs(client, "imports").new_entries()]
    assert f"[ERROR] {errors['imports']}" in logged
    assert "ModuleNotFoundError: No module named 'not_there'" in logged
    told = start_errors(client, [*SOURCES])
    assert told == {name: text.replace("\n", " ") for name, text in errors.items()}
