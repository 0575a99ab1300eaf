"""The commands of the pages, and the test that runs each of them."""

import re
from collections.abc import Iterator
from pathlib import Path

from docs.site.command_reference import commands
from once.ops.__main__ import app
from tests.architecture.imports import ROOT

PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))),
    *(ROOT / "conformance" / "README.md", ROOT / "events" / "README.md"),
]
SHELL = re.compile(r"^ *```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)

RUN_BY = {
    "python -m demo": "tests/e2e/test_traffic.py",
    "pip install": "tests/wheel/test_wheel.py::test_the_console_script_starts",
    "redelivery check": "tests/conformance/test_readme.py",
    "pytest": "tests/conformance/test_readme.py",
    "once status": "tests/ops/test_status.py",
    "once trace": "tests/ops/trace/test_command.py",
    "once send": "tests/ops/test_send.py",
    "once console": "tests/ops/console/test_command.py",
    "once outbox republish": "tests/ops/outbox/test_command.py",
    "once dlq list": "tests/ops/dlq/test_list.py",
    "once dlq show": "tests/ops/dlq/test_show.py",
    "once dlq redrive": "tests/ops/dlq/test_redrive.py",
    "once dlq purge": "tests/ops/dlq/test_purge.py",
    "once dlq import": "tests/ops/dlq/test_import.py",
    "once effects list": "tests/ops/effects/test_list.py",
    "once effects settle": "tests/ops/effects/test_settle.py",
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
    "make wheels": "tests/wheel/test_release_wheels.py",
    **dict.fromkeys(("make bootstrap", "make deploy", "make verify"), NEEDS_AWS),
    "make test": "is this suite",
    "make demo": "takes minutes: tests/e2e/test_traffic.py runs its traffic and its audit",
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
