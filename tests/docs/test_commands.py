"""Every documented command exists with its options, and so does every path in a page.

Links and anchors are followed on the site (`test_site`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session

from once.ops.__main__ import command_line
from tests.architecture.imports import ROOT

PAGES = [
    *sorted(
        path
        for files in ("*.md", "docs/**/*.md", "conformance/**/*.md", "events/*.md")
        for path in ROOT.glob(files)
    ),
]
ONCE = command_line()
SHELL = re.compile(r"^ *```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

_START = re.compile(r"\b(make|once|aws|pip install|redelivery|pytest|python -m) (?=[\w'-])")


def lines(text: str) -> Iterator[str]:
    """Yield the commands of a script: without comments, and each part of a line by itself."""
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.sub(r"(^|\s)#.*", "", line).strip().removeprefix("export ")
        for part in re.split(r";|&&|\|", bare) if "'" not in bare else [bare]:
            if found := _START.search(part.replace(".venv/bin/", "")):
                yield part.replace(".venv/bin/", "")[found.start() :].strip(' )"')


def documented() -> list[str]:
    """Return the commands of all shell blocks, and those in the text of CONTRIBUTING."""
    texts = [text for page in PAGES for text in SHELL.findall(Path(page).read_text())]
    texts += re.findall(r"`([^`\n]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    return sorted({line for text in texts for line in lines(text)})


DOCUMENTED = documented()
OURS = [line for line in DOCUMENTED if not line.startswith("aws ")]
AWS = [line for line in DOCUMENTED if line.startswith("aws ")]
OWN = {"--query", "--output", "--region", "--profile", "--notification-endpoint"}
"""Options that the AWS CLI has and the services' models have not."""


CUSTOM = {
    "cloudformation deploy": {"--stack-name", "--template-file", "--s3-bucket", "--capabilities"},
    "cloudformation package": {"--template-file", "--s3-bucket", "--output-template-file"},
}
"""Commands of the AWS CLI that are no operations, with the options that the pages use."""


def targets(*files: Path) -> set[str]:
    return {
        name for file in files for name in re.findall(r"^([a-z]+):", file.read_text(), re.MULTILINE)
    }


def test_make_knows_every_target() -> None:
    known = targets(ROOT / "Makefile", ROOT / "once/ops/new/templates/service/Makefile.jinja")
    made = [line.split()[1:] for line in OURS if line.startswith("make ")]
    elsewhere = [words for words in made if words[0] == "-C"]
    given = {word for words in made if words not in elsewhere for word in words}
    assert {word for word in given if "=" not in word} <= known
    for _, folder, *words in elsewhere:
        assert set(words) <= targets(ROOT / folder / "Makefile")


def test_the_tests_that_a_page_runs_exist() -> None:
    run = [word for line in OURS if line.startswith("pytest ") for word in line.split()[1:]]
    named = {word for word in run if word.startswith("tests/")}
    assert named
    assert {each for each in named if not (ROOT / each).exists()} == set()


def test_a_command_of_the_aws_cli_has_its_operation_and_parameters() -> None:
    assert AWS
    assert {line: unknown for line in AWS if (unknown := unknown_aws_words(line))} == {}


def unknown_aws_words(line: str) -> list[str]:
    """Return the words of an AWS CLI command that AWS's own model of the service does not have."""
    _, service, command, *_ = line.split()
    model = botocore.session.get_session().get_service_model(service.removesuffix("api"))  # s3api
    operations = {botocore.xform_name(name, "-"): name for name in model.operation_names}
    given = re.findall(r"(?<=\s)--[a-z0-9-]+", line)
    if options := CUSTOM.get(f"{service} {command}"):
        return [word for word in given if word not in options]
    if command not in operations:
        return [command]
    shape = model.operation_model(operations[command]).input_shape
    members = shape.members if shape else {}
    known = {f"--{botocore.xform_name(name, '-')}" for name in members} | OWN
    return [word for word in given if word not in known]


FOLDERS = "once|functions|stacks|demo|emulator|proof|benchmarks|tests|docs|events|conformance"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
COMMAND = re.compile(
    r"`(?:once )?((?:status|dlq|trace|outbox|(?<=once )(?:send|local))(?: [^`]*)?)`"
)
EXAMPLE = {
    *(ROOT / "functions/tickets", ROOT / "functions/tickets/handler.py"),
    *(ROOT / "tests/functions/test_tickets.py", ROOT / "events/ticket-requested.json"),
    ROOT / "tests/test_tickets.py",
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
    found: Any = ONCE
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
