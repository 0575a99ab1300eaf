"""The root of the command line: version, Ctrl-C, plugins, times in options, and `--json`."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer import BadParameter
from typer.testing import CliRunner

from once.effects.declaration import Policy
from once.ops import __main__, progress
from once.ops.__main__ import COMMANDS, PLUGIN_GROUP, command_line
from once.ops.aws.deployment import Deployment
from once.ops.console.server import ConsoleServer
from once.ops.errors import ExitCode
from once.ops.terminal import parse_time_option
from tests.architecture.imports import ROOT
from tests.once.support import SETTINGS
from tests.ops.cloud import Cloud
from tests.ops.outboxes import REPUBLISH, commit_each
from tests.ops.shop import Shop, note
from tests.ops.support import run, stderr_of, stdout_of, words


def test_version_is_that_of_the_distribution() -> None:
    assert stdout_of("--version") == f"once {version('once-consumer')}\n"


def test_ctrl_c_ends_any_command_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(service: str) -> Deployment:
        raise KeyboardInterrupt

    monkeypatch.setattr(Deployment, "find", stop)
    assert "run the same command again" in stderr_of("dlq", "list", code=ExitCode.STOPPED)


TRIED = typer.Typer()


@TRIED.command()
def tried() -> None:
    """Say so."""
    typer.echo("tried")


def test_plugins_run_and_one_that_cannot_be_loaded_or_is_missing_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [
        EntryPoint("broken", "tests.ops.missing:app", __main__.PLUGIN_GROUP),
        EntryPoint("tried", "tests.ops.test_main:TRIED", __main__.PLUGIN_GROUP),
    ]
    monkeypatch.setattr(__main__, "entry_points", lambda *, group: found)
    root = typer.Typer(cls=__main__._Root)
    root.callback()(lambda: None)
    assert CliRunner().invoke(root, ["tried"]).stdout == "tried\n"
    broken = CliRunner().invoke(root, ["broken"])
    assert broken.exit_code == ExitCode.FAILED
    assert "the command 'broken' (tests.ops.missing:app) cannot be loaded" in words(broken.stderr)
    missing = CliRunner().invoke(root, ["local", "up"])
    assert missing.exit_code == ExitCode.FAILED
    assert "`once local` is in another package: `pip install once-local`" in words(missing.stderr)


RUNNING = {"AWS_ENDPOINT_URL": "https://127.0.0.1:1", "AWS_REGION": "eu-west-1"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "using the embedded AWS of this folder, https://127.0.0.1:1; AWS_PROFILE leads to"),
        ({"AWS_PROFILE": "production"}, "using AWS, because of AWS_PROFILE; `eval"),
        ({"AWS_ENDPOINT_URL": "https://127.0.0.1:2"}, ""),
    ],
)
def test_an_aws_that_runs_for_the_folder_is_used_or_told_of(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], told: str
) -> None:
    group = __main__.ENDPOINT_GROUP
    here = EntryPoint("local", "tests.ops.test_main:RUNNING.copy", group)
    found = {group: [here]}
    monkeypatch.setattr(__main__, "entry_points", lambda *, group: found.get(group, []))
    monkeypatch.setattr(os, "environ", {**os.environ, **given})
    assert run("explain", "died").stderr == ""  # it calls no AWS
    assert words(run("status", "--help").stderr).startswith(told)
    used = told.startswith("using the embedded")
    assert (os.environ.get("AWS_ENDPOINT_URL") == RUNNING["AWS_ENDPOINT_URL"]) is used


@pytest.mark.usefixtures("cloud")
def test_the_service_is_that_of_the_project_unless_another_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pyproject.toml"
    assert __main__._service_of_project(file) == ""
    file.write_text('[tool.once]\nservice = "tickets"\n')
    assert __main__._service_of_project(file) == "tickets"
    monkeypatch.setenv("ONCE_SERVICE", "named")
    assert "no stack 'given-state'" in stderr_of("status", "--service", "given")
    assert "no stack 'named-state'" in stderr_of("status")


HELP = """
import sys
from once.ops.__main__ import app
try:
    app(["--help"], prog_name="once")
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {
    "boto3",
    "botocore",
    "rich.console",
    "pydantic",
    "aws_cdk",
    "starlette",
    "msgspec",
    "aws_lambda_powertools",
}


def test_help_imports_no_command_and_tells_what_each_one_says_of_itself() -> None:
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert HEAVY & {*done.stderr.split()} == set()
    listed = done.stdout.partition("Commands:")[2]
    shown = dict(re.findall(r"^  (\w+) +(.*)$", listed, re.MULTILINE))
    commands = command_line().commands
    assert {n: commands[n].help.partition("\n")[0] for n in COMMANDS} == {
        name: shown[name] for name in COMMANDS
    }


NOW = datetime(2026, 7, 30, 12, tzinfo=UTC)


def read(text: str) -> str:
    return parse_time_option(text, now=NOW, option="--since").astimezone(UTC).isoformat()


MOMENTS = {
    "90m": "2026-07-30T10:30:00+00:00",
    "26h": "2026-07-29T10:00:00+00:00",
    " 2d ": "2026-07-28T12:00:00+00:00",
    "2026-07-28": "2026-07-28T00:00:00+00:00",
    "2026-07-28T09:15": "2026-07-28T09:15:00+00:00",
    "2026-07-28T09:15:00Z": "2026-07-28T09:15:00+00:00",
    "2026-07-28T09:15+02:00": "2026-07-28T07:15:00+00:00",
}


def test_times_are_in_utc_unless_they_have_an_offset() -> None:
    assert {text: read(text) for text in MOMENTS} == MOMENTS


INVALID = (
    *("", "yesterday", "26", "-2d", "2 d", "2w", "1.5h", "٣d"),
    *("2026-02-30", "999999999d", "0001-01"),
)


def test_invalid_time_is_refused_with_the_valid_forms() -> None:
    for text in INVALID:
        with pytest.raises(BadParameter, match="is no point in time: give a date") as error:
            read(text)
        assert "90m, 26h, 2d" in str(error.value)
        assert error.value.param_hint == "--since"


PAGE = (ROOT / "docs" / "command-line.md").read_text()
DOCUMENTED = {
    name: json.loads(example)
    for name, example in re.findall(
        r"^### once ([\w -]+)\n.*?^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
}
CONSOLE = "console"
LIST, SETTLE = EFFECTS = ("effects list", "effects settle")
WEBHOOKS = {name for name in DOCUMENTED if name.startswith("webhooks ")}
"""Tested with a deployment that has an ingress: tests/ops/webhooks/test_list.py."""
REGIONS = {name for name in DOCUMENTED if name.startswith("region ")}
"""Tested with a deployment in two Regions: tests/ops/test_region_takeover.py and beside it."""
NEW = {name for name in DOCUMENTED if name.startswith("new ")}
"""They write into the working directory."""
TEMPLATES = {"package", "template", "lock"}
"""Tested with what they write: tests/e2e/test_examples.py, tests/ops/new/test_new.py."""
MAPPINGS = {"pause", "resume"}
"""Tested with event source mappings: tests/ops/test_pausing.py."""
FORMER = "former"
"""Tested with the records of a former function: tests/docs/test_migrating.py."""
ALONE = {CONSOLE, FORMER, *EFFECTS, *MAPPINGS, *NEW, *REGIONS, *TEMPLATES, *WEBHOOKS}
FREE = {"events", "attributes", "failed", "moments", "headers", "disagreements"}
"""Members whose own members are names of data, or differ from entry to entry."""


def shape(value: Any) -> Any:
    """Return the names of the members, in their order; None for the rest."""
    if isinstance(value, dict):
        return {k: None if k in FREE else shape(member) for k, member in value.items()}
    if isinstance(value, list) and value:
        return shape(value[0])
    return None


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop with one dead letter and one committed event."""
    commit_each(shop.cloud, "orders#a", age=1)
    shop.fail("a")
    return shop


FIXED = {
    "send": ("--type", "order.placed", "--data", "1"),
    "trace": ("id-a", "--no-logs"),
    "explain": ("died",),
    "ack": ("orders",),
}


def arguments(shop: Shop, command: str) -> tuple[object, ...]:
    match command:
        case "dlq show":
            return (shop.only_dead_letter().message_id,)
        case "dlq redrive":
            shop.dead_letter(note("late") | {"time": "2020-01-01T00:00:00Z"}, error=ValueError())
            return ("--yes", "--rate", 1000)
        case "dlq purge":
            return ("--yes", "--all", "--why", "tidy")
        case "dlq import":
            assert run("dlq", "purge", "--yes", "--all", "--why", "tidy").exit_code == 0
            return ("20", "--yes")
        case "dlq archives":
            assert run("dlq", "purge", "--yes", "--all", "--why", "tidy").exit_code == 0
        case "outbox list":
            shop.cloud.wait_until(time.time() + 60)
            return ("--due",)
        case "outbox republish":
            return (*REPUBLISH[2:], "2h")
        case "retries":
            line = {"message": "will be retried", "receive_count": 2, "breaker_error": "NotDone"}
            shop.cloud.log("orders", json.dumps(line))
        case "settings check":
            Path("settings.json").write_text(SETTINGS.to_env()["ONCE_SETTINGS"])
            return ("settings.json",)
    return FIXED.get(command, ())


def has_documented_shape(command: str, output: str) -> bool:
    return output.count("\n") == 1 and shape(json.loads(output)) == shape(DOCUMENTED[command])


@pytest.mark.parametrize("command", sorted(DOCUMENTED.keys() - ALONE))
def test_stdout_is_one_value_of_the_documented_shape(shop: Shop, command: str) -> None:
    result = run(*command.split(), *arguments(shop, command), "--json")
    assert has_documented_shape(command, result.stdout), result.output


def test_a_pending_effect_and_its_settlement_have_the_documented_shape(cloud: Cloud) -> None:
    with Shop(cloud, Policy.AT_MOST_ONCE) as shop:
        shop.outside.answers = [TimeoutError()]
        shop.dead_letter(note("a"))
        listed = run(*LIST.split(), "--json")
        decision = ("--done", '"ref-1"', "--why", "asked", "--yes")
        result = run(*SETTLE.split(), shop.only_dead_letter().message_id, *decision, "--json")
    assert has_documented_shape(LIST, listed.stdout), listed.output
    assert has_documented_shape(SETTLE, result.stdout), result.output


def test_the_console_tells_its_url_in_the_documented_shape(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConsoleServer, "serve_until_stopped", lambda server: None)
    result = run(CONSOLE, "--read-only", "--json")
    assert has_documented_shape(CONSOLE, result.stdout), result.output


def test_new_files_are_told_in_the_documented_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / f"once_consumer-{version('once-consumer')}-py3-none-any.whl").touch()
    (folder := tmp_path / "shop").mkdir()
    monkeypatch.chdir(folder)
    result = run("new", "service", "shop", "--wheels", "../dist", "--json")
    assert has_documented_shape("new service", result.stdout), result.output


def test_every_command_has_json_and_a_documented_shape() -> None:
    plugins = {entry.name for entry in entry_points(group=PLUGIN_GROUP)}
    found = {
        name: options
        for name, _, options in _commands(command_line())
        if name.partition(" ")[0] not in plugins
    }
    assert set(found) == set(DOCUMENTED)
    assert [name for name, options in found.items() if not {"--json", "-o"} <= options] == []


@pytest.mark.usefixtures("cloud")
def test_options_that_contradict_themselves_are_refused() -> None:
    twice = ("--consumer", "orders", "--consumer", "inventory")
    for command in ("dlq list", "dlq redrive", "retries"):
        assert "--consumer: is given twice" in stderr_of(*command.split(), *twice, code=2)
    period = ("--since", "1h", "--until", "2h")
    for command in ("list", "redrive", "purge"):
        assert "the period is empty" in stderr_of("dlq", command, *period, code=2)
    stdout_of("dlq", "list", "--since", "2h", "--until", "1h")


def test_the_output_option_is_the_same_as_json(cloud: Cloud) -> None:
    assert stdout_of("status", "-o", "json") == stdout_of("status", "--json")
    assert "consumer" in stdout_of("status", "-o", "table")


def _commands(group: Any, path: str = "") -> Iterator[tuple[str, Any, set[str]]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path}{name} ")
        else:
            options = {option for parameter in command.params for option in parameter.opts}
            yield f"{path}{name}", command, options


CHANGING = {"--yes", "--dry-run", "--why"}
CHANGES = ("dlq redrive", "dlq purge", "dlq import", "effects settle", "outbox republish")
TAKEOVERS = ("region fail-over", "region fail-back", "region reconcile")
ONE_NAME = {"--most": "--limit", "--max": "--limit", "--older-than": "--until", "--from": "--since"}


def test_the_help_of_every_command_keeps_the_conventions() -> None:
    changing = []
    for name, command, options in _commands(command_line()):
        lines = stdout_of(*name.split(), "-h")
        assert max(map(len, lines.splitlines())) <= 80, name
        assert not re.search(r"<\w|\bNone\b|[a-z]-$|x>=", lines, re.MULTILINE), name
        assert [
            part for part in command.params if not (part.help or "").strip().endswith(".")
        ] == []
        assert command.help.partition("\n")[0].endswith("."), name
        assert not options & ONE_NAME.keys(), name
        assert ("--since" in options) >= ("--until" in options), name
        if CHANGING & options - {"--why"}:
            assert options >= CHANGING, name
            changing.append(name)
    assert sorted(changing) == sorted((*CHANGES, *MAPPINGS, *TAKEOVERS, "webhooks replay"))


def _texts(file: Path) -> Iterator[str]:
    """Yield the texts of a module without its docstrings, `7` for each formatted value."""
    every = [*ast.walk(ast.parse(file.read_text()))]
    parts = {id(part) for one in every if isinstance(one, ast.JoinedStr) for part in one.values}
    parts |= {id(one.value) for one in every if isinstance(one, ast.Expr)}
    for one in every:
        match one:
            case ast.JoinedStr(values=values) if id(one) not in parts:
                yield "".join(
                    str(getattr(value, "value", "7")) if isinstance(value, ast.Constant) else "7"
                    for value in values
                )
            case ast.Constant(value=str(text)) if id(one) not in parts:
                yield text


def test_every_command_that_a_text_names_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("FILE", "7"):
        (tmp_path / name).touch()
    files = [*(ROOT / "once").rglob("*.py"), *(ROOT / "emulator").rglob("*.py")]
    texts = [text for file in files for text in _texts(file)]
    hints = {hint for text in texts for hint in re.findall(r"`(once [a-z][^`]*)", text)}
    assert len(hints) > 25
    for hint in hints:
        found, (_, *words) = command_line(), shlex.split(hint)
        while words and words[0] in getattr(found, "commands", {}):
            found = found.commands[words.pop(0)]
        if words or not hasattr(found, "commands"):  # a group may be named by itself
            found.make_context(hint, words)


def test_a_printed_command_names_the_service_that_its_own_line_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.dead_letter("{")
    plan = ("dlq", "redrive", "--dry-run")
    assert " --edit --service once`" in words(stdout_of(*plan, "--service", "once"))
    monkeypatch.setenv("ONCE_SERVICE", "once")
    assert " --edit`" in words(stdout_of(*plan))


def test_a_command_says_what_it_does_if_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    said, lines = Event(), []

    def tell(line: str, **_: Any) -> None:
        lines.append(line)
        said.set()

    monkeypatch.setattr(progress, "error_console", SimpleNamespace(print=tell))
    with progress.saying("reading", after=0):
        assert said.wait(60)
    with progress.saying("quick", after=60):
        pass
    assert lines == ["reading …"]
