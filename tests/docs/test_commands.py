"""Every documented command is run by a test or parsed, and every path in a page exists.

Links and anchors are followed on the site (`test_site`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
from typer.main import get_command

from docs.site.command_reference import commands
from once.ops.__main__ import app
from tests.architecture.imports import ROOT

PAGES = [
    *sorted(path for files in ("*.md", "docs/**/*.md") for path in ROOT.glob(files)),
    *(ROOT / "conformance" / "README.md", ROOT / "events" / "README.md"),
]
SHELL = re.compile(r"^ *```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

RUN_BY = {
    "python -m demo": "tests/proof/test_soak.py",
    "pip install": "tests/wheel/test_wheel.py::test_the_console_script_starts",
    "redelivery check": "tests/conformance/test_distribution.py",
    "pytest": "tests/conformance/test_distribution.py",
    "once status": "tests/ops/test_status.py",
    "once trace": "tests/ops/trace/test_trace.py",
    "once send": "tests/ops/test_send.py",
    "once console": "tests/ops/console/test_server.py",
    "once outbox republish": "tests/ops/test_outbox.py",
    "once dlq list": "tests/ops/dead_letters/test_commands.py",
    "once dlq show": "tests/ops/dead_letters/test_commands.py",
    "once dlq redrive": "tests/ops/dead_letters/test_redrive.py",
    "once dlq purge": "tests/ops/dead_letters/test_export.py",
    "once dlq import": "tests/ops/dead_letters/test_export.py",
    "once effects list": "tests/ops/test_effects.py",
    "once effects settle": "tests/ops/test_effects.py",
    "once webhooks list": "tests/ops/webhooks/test_list.py",
    "once webhooks show": "tests/ops/webhooks/test_list.py",
    "once webhooks replay": "tests/ops/webhooks/test_replay.py",
    "once webhooks send": "tests/ops/webhooks/test_send.py",
    "once webhooks listen": "tests/ops/webhooks/test_listen.py",
    "once new consumer": "tests/newcomer/test_new_consumer.py",
    "once new service": "tests/ops/new/test_service.py",
    **{
        f"once local {name}": "tests/newcomer/test_new_consumer.py"
        for name in ("up", "deploy", "env", "logs", "down")
    },
}
"""By command: the file, or the one test, that runs it. Options are compared with the command's."""

NEEDS_AWS = "needs an account of AWS: its arguments are parsed, nothing is called"
PARSED = {
    "make wheels": "tests/wheel/test_wheel.py",
    **dict.fromkeys(("make bootstrap", "make deploy", "make verify"), NEEDS_AWS),
    "make test": "is this suite",
    "make demo": "takes minutes: tests/proof/test_soak.py runs its traffic and its audit",
}
"""Commands that no test runs, with the reason. All of the AWS CLI's are parsed only, too."""

_START = re.compile(r"\b(make|once|aws|pip install|redelivery|pytest|python -m) (?=[\w'-])")


def lines(text: str) -> Iterator[str]:
    """Yield the commands of a script: without comments, and each part of a line by itself."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line).strip().removeprefix("export ")
        for part in re.split(r";|&&|\|", bare) if "'" not in bare else [bare]:
            if found := _START.search(part.replace(".venv/bin/", "")):
                yield part.replace(".venv/bin/", "")[found.start() :].strip(' )"')


def documented() -> list[str]:
    """Return the commands of all shell blocks."""
    texts = (text for page in PAGES for text in SHELL.findall(Path(page).read_text()))
    return sorted({line for text in texts for line in lines(text)})


def names(line: str) -> list[str]:
    """Return the names in the table that a command line stands for."""
    match line.split():
        case ["make", *targets]:
            return [f"make {target}" for target in targets if "=" not in target]
        case ["once", *_]:
            known = [each for each in commands(app, "once") if f"{line} ".startswith(f"{each} ")]
            return known or [line]
        case ["python", "-m", module, *_]:
            return [f"python -m {module}"]
        case ["pytest", *_]:
            return ["pytest"]
        case [*words]:
            return [" ".join(words[:2])]


DOCUMENTED = documented()
OURS = [line for line in DOCUMENTED if not line.startswith("aws ")]
AWS = [line for line in DOCUMENTED if line.startswith("aws ")]
OWN = {"--query", "--output", "--region", "--profile", "--notification-endpoint"}
"""Options that the AWS CLI has and the services' models have not."""


def test_a_documented_command_has_a_test() -> None:
    named = {name for line in OURS for name in names(line)}
    assert named - {*RUN_BY, *PARSED} == set(), "name the test that runs it in RUN_BY"
    assert set(commands(app, "once")) - set(RUN_BY) == set()


def test_the_named_test_exists_and_has_the_words_of_the_command() -> None:
    for command, place in RUN_BY.items():
        file, _, test = place.partition("::")
        assert f"def {test or 'test_'}" in (ROOT / file).read_text(), command
        if command.startswith("once "):
            words = command.split()[1:]
            folder = "".join(p.read_text() for p in (ROOT / file).parent.rglob("*.py"))
            page = "" if "newcomer" not in file else (ROOT / "docs/new-consumer.md").read_text()
            assert [word for word in words if word not in folder + page] == [], command


def test_make_knows_every_target() -> None:
    known = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {name for line in OURS for name in names(line) if name.startswith("make ")}
    assert named <= {f"make {target}" for target in known}


def test_a_command_of_the_aws_cli_has_its_operation_and_parameters() -> None:
    assert AWS
    assert {line: unknown for line in AWS if (unknown := unknown_aws_words(line))} == {}


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


FOLDERS = "once|functions|stacks|demo|emulator|lab|proof|benchmarks|tests|docs|events|conformance"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
COMMAND = re.compile(
    r"`(?:once )?((?:status|dlq|trace|outbox|(?<=once )(?:send|local))(?: [^`]*)?)`"
)
EXAMPLE = {
    *(ROOT / "functions/tickets", ROOT / "functions/tickets/handler.py"),
    *(ROOT / "tests/functions/test_tickets.py", ROOT / "events/ticket-requested.json"),
}
"""The pages tell their reader to create these."""

COMMANDS = {
    text for page in ROOT.glob("docs/**/*.md") for text in COMMAND.findall(page.read_text())
}


def test_the_paths_in_a_page_exist() -> None:
    named = {(page, ROOT / path) for page in PAGES for path in PATH.findall(page.read_text())}
    assert {(page, p) for page, p in named if not p.exists() and p not in EXAMPLE} == set()


def unknown_words(text: str) -> list[str]:
    """Return the words of a command that the command line does not have."""
    found: Any = get_command(app)
    words = text.split()
    while words and hasattr(found, "commands") and words[0] in found.commands:
        found = found.commands[words.pop(0)]
    options = {name for parameter in found.params for name in parameter.opts}
    unknown = [word for word in words if word.startswith("--") and word not in options]
    missing_command = [words[0]] if words and hasattr(found, "commands") else []
    return unknown + missing_command


IN_BLOCKS = {line.removeprefix("once ") for line in OURS if line.startswith("once ")}


def test_a_command_exists_with_its_options() -> None:
    shown = COMMANDS | IN_BLOCKS
    assert {text: unknown for text in shown if (unknown := unknown_words(text))} == {}
