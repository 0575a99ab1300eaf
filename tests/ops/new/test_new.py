"""`once new consumer` and `once new service`: every file, or none."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from once.ops.errors import OpsError
from once.ops.new import service_files
from once.ops.new.command_files import CommandLine, with_commands
from once.ops.new.consumer_files import RegistryLine, with_line
from once.ops.new.service_files import Tool
from once.testing import FakeAws, cloud_event
from tests.architecture.imports import ROOT
from tests.ops.support import stderr_of, stdout_of
from tests.stacks.cloud import CONTEXT

RUFF = Path(sys.executable).with_name("ruff")
REGISTRY = '''\
"""The registry."""

from pathlib import Path

from once.cdk import ConsumerProps, Registry, TableProps

CONSUMERS = (
    ConsumerProps("payments", publishes=("payment.captured",)),
    ConsumerProps("ledger", external=("entry.made",), tables=(TableProps("book", "entry_id"),)),
)
HERE = Path(__file__).resolve().parent
HANDLERS = HERE / "{functions}"
REGISTRY = Registry(CONSUMERS, file=Path(__file__), functions=HANDLERS, deployed=HERE)
'''
HANDLER = '''\
"""Books entries."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("ledger")


class Entry(Struct, frozen=True):
    """An entry."""

    account: str
    entry_id: str
    lines: list[int]
    note: str = ""


@consumer.handles("entry.made", Entry)
def book(event: Entry, tx: Transaction) -> None:
    """Book it."""
'''
SETTINGS = '[tool.once]\nregistry = "{module}:REGISTRY"\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose modules have names of their own, since they are imported."""
    name = f"{tmp_path.name}_{tmp_path.parent.name}".replace("-", "_")
    handlers = tmp_path / f"handlers_of_{name}"
    (handlers / "ledger").mkdir(parents=True)
    (handlers / "ledger" / "handler.py").write_text(HANDLER)
    (handlers / "payments").mkdir()
    module = f"registry_of_{name}"
    (tmp_path / f"{module}.py").write_text(REGISTRY.format(functions=handlers.name))
    (tmp_path / "pyproject.toml").write_text(SETTINGS.format(module=module))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for loaded in [each for each in sys.modules if name in each]:
        del sys.modules[loaded]


def content(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def text_of(project: Path, pattern: str) -> str:
    [path] = project.glob(pattern)
    return path.read_text()


def ruff_accepts(project: Path) -> bool:
    rules = ["check", "--select", "D1,E,F,I,UP,W", "--ignore", "D100,D103,I001"]
    config = ["--no-cache", "--config", str(ROOT / "pyproject.toml")]
    return all(
        subprocess.run([str(RUFF), *command, *config, str(project)], check=False).returncode == 0
        for command in (rules, ["format", "--check"])
    )


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("struct", "class RefundRequested(Struct, frozen=True):"),
        ("dataclass", "@dataclass(frozen=True)\nclass RefundRequested:"),
        ("pydantic", "class RefundRequested(BaseModel, frozen=True):"),
    ],
)
def test_the_models_are_of_the_kind_that_is_asked_for(project: Path, kind: str, head: str) -> None:
    stdout_of("new", "consumer", "refunds", "--model", kind)
    handler = text_of(project, "handlers_*/refunds/handler.py")
    assert head in handler
    assert ruff_accepts(project)
    names: dict[str, Any] = {"__name__": "handler"}
    exec(compile(handler, "handler.py", "exec"), names)
    with FakeAws(names["consumer"], {"refunds": "refund_id"}) as aws:
        aws.deliver(cloud_event("refund.requested", {"refund_id": "r-1", "amount": 2}))
        assert aws.then("refunds", "r-1") == {"refund_id": "r-1", "amount": 2}


RESOLVER = """#!/bin/sh
case "$*" in *" -c "*/packaging/requirements.txt*) ;; *) exit 2 ;; esac
grep -q absent requirements.in && { echo "no version of absent" >&2; exit 1; }
for last; do :; done
sed "s/$/==1.0 --hash=sha256:0/" requirements.in > "$last"
"""
"""In place of uv, which asks a package index: tests/wheel/test_new_service.py runs the real one."""


@pytest.fixture
def uv(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program := project / "bin" / "uv").parent.mkdir()
    program.write_text(RESOLVER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.mark.usefixtures("uv")
def test_the_packages_of_a_function_are_locked(project: Path) -> None:
    assert "all run with the library's packages alone" in stdout_of("lock")
    [ledger] = project.glob("handlers_*/ledger")
    (ledger / "requirements.in").write_text("pydantic\n")
    assert json.loads(stdout_of("lock", "--json")) == {
        "written": [f"{ledger.relative_to(project)}/requirements.txt"]
    }
    assert (ledger / "requirements.txt").read_text() == "pydantic==1.0 --hash=sha256:0\n"


@pytest.mark.usefixtures("uv")
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("ledgers", "ledgers has no line in the registry: give one of payments, ledger"),
        ("payments", "payments/requirements.in does not exist: write the names"),
        ("ledger", "cannot be resolved together with the library's packages: no version of"),
    ],
)
def test_what_cannot_be_locked_is_said_and_changes_nothing(
    project: Path, name: str, error: str
) -> None:
    [ledger] = project.glob("handlers_*/ledger")
    (ledger / "requirements.in").write_text("absent\n")
    (ledger / "requirements.txt").write_text("before\n")
    assert error in stderr_of("lock", name)
    assert (ledger / "requirements.txt").read_text() == "before\n"


WRITTEN: dict[str, tuple[list[str], str, str]] = {
    "a new type": ([], "refund_id: str\n    amount: int\n", 'external=("refund.requested",),'),
    "a type with a handler": (
        ["entry.made"],
        "account: str\n    entry_id: str\n\n",
        'external=("entry.made",),',
    ),
    "a published type": (
        ["payment.captured"],
        'are ignored."""\n\n\nclass',
        'events=("payment.captured",),',
    ),
    "two types": (["a.b", "entry.made"], "account: str\n", 'external=("a.b", "entry.made"),'),
    "long types": (
        [f"{'long' * 5}.{word}" for word in ("asked", "granted", "gone")],
        "amount: int\n",
        "longlong.asked",
    ),
}


@pytest.mark.parametrize(("takes", "fields", "line"), WRITTEN.values(), ids=WRITTEN)
def test_a_consumer_is_written_whole(
    project: Path, takes: list[str], fields: str, line: str
) -> None:
    before = content(project)
    options = [word for each in takes for word in ("--takes", each)]
    told = stdout_of("new", "consumer", "refunds", *options)
    assert "once local logs -f refunds" in told
    assert fields in text_of(project, "handlers_*/refunds/handler.py")
    assert line in text_of(project, "registry_of_*.py")
    assert 'once_aws("refunds")' in text_of(project, "tests/test_refunds.py")
    samples = {"entry.made": 0, "payment.captured": 0}
    assert len([*project.glob("events/*.json")]) == sum(samples.get(t, 1) for t in takes or [""])
    assert {name for name in before if content(project)[name] != before[name]} == {
        path.name for path in project.glob("registry_of_*.py")
    }
    assert ruff_accepts(project)


REFUSED: dict[tuple[str, ...], str] = {
    ("Refunds",): "cannot be a consumer's name: use at most 40 lower-case letters",
    ("ledger",): "there is a consumer 'ledger' already: choose another name",
    ("book",): "there is a table 'book' already",
    ("refunds", "--takes", "a,b"): "cannot be an event type here",
    ("refunds", "--takes", "a.b", "--takes", "a_b"): "would have one class name",
    ("n" * 40,): "choose a shorter name",
    ("refunds", "--model", "attrs"): "no kind of model: give one of struct, dataclass",
    ("refunds",): "exists, and no file is replaced",
}


def test_what_cannot_be_written_leaves_everything_as_it_was(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "test_refunds.py").write_text("mine\n")
    before = content(project)
    for arguments, said in REFUSED.items():
        assert said in stderr_of("new", "consumer", *arguments)
        assert content(project) == before


def test_a_failing_command_of_the_project_undoes_everything(project: Path) -> None:
    settings = project / "pyproject.toml"
    (project / "fails.py").write_text("raise SystemExit('no sample')")
    settings.write_text(f'{settings.read_text()}after = ["python fails.py"]\n')
    before, folders = content(project), {path for path in project.rglob("*") if path.is_dir()}
    said = stderr_of("new", "consumer", "refunds")
    assert "nothing was written" in said
    assert "no sample" in said
    assert content(project) == before
    assert {
        path for path in project.rglob("*") if path.name != "__pycache__" and path.is_dir()
    } <= (folders)


WITHOUT_REGISTRY = {
    None: "begin one in an empty folder with `once new service NAME`",
    "[tool.once": "is no TOML",
    "[project]\n": "does not say where consumers belong; add",
    "[tool.once]\n": "names no registry",
    '[tool.once]\nregistry = "no_such_module_here:X"\n': "cannot be imported",
    '[tool.once]\nregistry = "json:X"\n': "cannot be imported",
}


def test_a_project_without_a_registry_is_told_what_to_do(project: Path) -> None:
    file = project / "pyproject.toml"
    for settings, said in WITHOUT_REGISTRY.items():
        file.unlink() if settings is None else file.write_text(settings)
        assert said in stderr_of("new", "consumer", "refunds")


IMPORT = "from once.cdk import ConsumerProps, TableProps\n"
LINE = RegistryLine(
    name="refunds",
    key="refund_id",
    external=("refund.requested",),
    events=("payment.captured", "payment.declined"),
)


UNEDITABLE = {
    "CONSUMERS = (": "is no Python",
    "CONSUMERS = (\n)\n": "does not import ConsumerProps and TableProps: add `from once.cdk",
    f"{IMPORT}\nLINES = (\n)\n": "has no tuple CONSUMERS with each entry on lines of its own",
    f'{IMPORT}\nCONSUMERS = (ConsumerProps("a"),)\n': "each entry on lines of its own",
    f"{IMPORT}\nCONSUMERS = tuple(\n    [],\n)\n": "each entry on lines of its own",
    f"{IMPORT}\nREFUNDS = 1\nCONSUMERS = (\n)\n": "has the name REFUNDS already",
}


def test_a_registry_that_cannot_be_edited_is_refused() -> None:
    for source, said in UNEDITABLE.items():
        with pytest.raises(OpsError, match=said):
            with_line(source, LINE, Path("consumers.py"))


# `once new service` writes into an empty folder. The wheel's tests run what it writes.


WHEEL = f"once_consumer-{version('once-consumer')}-py3-none-any.whl"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "service").mkdir()
    monkeypatch.chdir(tmp_path / "service")
    return tmp_path / "service"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A folder with wheels of three distributions and of two versions."""
    found = tmp_path / "my dist"
    found.mkdir()
    for name in (WHEEL, "once_consumer-0.0.9-py3-none-any.whl", "once_local-0.1.0.whl"):
        (found / name).write_text(name)
    return found


def installed_from(monkeypatch: pytest.MonkeyPatch, url: str | None) -> None:
    """Let the library be installed from this URL; None for a package index."""
    origin = None if url is None else json.dumps({"url": url})
    recorded = SimpleNamespace(read_text={"direct_url.json": origin}.get)
    monkeypatch.setattr(service_files, "distribution", lambda name: recorded)


def vendored(folder: Path) -> list[str]:
    return [each.read_text() for each in folder.glob("vendor/*")]


def test_the_wheel_that_the_library_was_installed_from_is_copied(
    folder: Path, dist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(monkeypatch, (dist / WHEEL).as_uri())
    stdout_of("new", "service", "shop")
    assert vendored(folder) == [WHEEL]
    assert "`vendor/` holds the wheel" in (folder / "README.md").read_text()


def test_with_a_release_from_an_index_there_is_no_wheel(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_from(monkeypatch, None)
    stdout_of("new", "service", "shop")
    assert not (folder / "vendor").exists()
    assert "vendor" not in (folder / "README.md").read_text()


@pytest.mark.parametrize("tool", [each for each in Tool if each is not Tool.CDK])
def test_a_service_of_another_tool_has_its_function_under_its_own_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    installed_from(monkeypatch, None)
    stdout_of("new", "service", "box-office", "--consumer", "seat_maps", "--tool", tool)
    assert not (folder / "app.py").exists()
    assert "app.py" not in (folder / "Makefile").read_text() + (folder / "README.md").read_text()
    function = (folder / tool.example).read_text()
    assert "ticket" not in function.lower()
    named = ("box-office-seat_maps", "box-office-service", "SeatMapsSettings", "SeatMapsPolicyArn")
    paths = ("functions.seat_maps.handler", "once.out/packages/seat_maps.zip")
    assert [each for each in (*named, *paths) if each not in function] == []


def test_without_its_wheel_nothing_is_written_and_the_error_says_how_to_make_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (
        "file:///src/once",  # a checkout
        "file:///gone/once_consumer-0.1.0.whl",
        "https://example.com/once.whl",
    ):
        installed_from(monkeypatch, url)
        shown = stderr_of("new", "service", "shop")
        assert url.removeprefix("file://") in shown
        assert "run `make wheels` in a checkout of its repository, and give --wheels" in shown
    assert "has no once_consumer-" in stderr_of("new", "service", "shop", "--wheels", ".")
    assert [*folder.iterdir()] == []


def test_the_services_app_has_the_flags_of_the_cdk_that_this_project_has(
    folder: Path, dist: Path
) -> None:
    (folder / ".git").mkdir()
    stdout_of("new", "service", "box-office", "--wheels", str(dist))
    assert vendored(folder) == [WHEEL]
    context = json.loads((folder / "cdk.json").read_text())["context"]
    assert context["service"] == "box-office"
    flags = {name: value for name, value in CONTEXT.items() if name.startswith("@aws-cdk")}
    assert {n: v for n, v in context.items() if n.startswith("@aws-cdk")} == flags
    assert json.loads((folder / "deployed.json").read_text()) == {}


def test_a_bad_name_or_a_folder_with_files_writes_nothing(folder: Path, dist: Path) -> None:
    given = ("--wheels", str(dist))
    assert "cannot be a service's name" in stderr_of("new", "service", "Box Office", *given)
    bad = stderr_of("new", "service", "shop", "--consumer", "a-b", *given)
    assert "cannot be a consumer's name" in bad
    assert [*folder.iterdir()] == []
    (folder / "mine").write_text("")
    assert "is not empty (mine)" in stderr_of("new", "service", "shop")
    assert [path.name for path in folder.iterdir()] == ["mine"]


# `once new command` writes a handler of commands, its tests, and the line.


def command_tests(project: Path, name: str) -> None:
    """Run the tests that were written, with the handler that was written."""
    handler: dict[str, Any] = {"__name__": "handler"}
    exec(compile(text_of(project, f"handlers_*/{name}/handler.py"), "h.py", "exec"), handler)
    tests: dict[str, Any] = {"__name__": "tests"}
    exec(compile(text_of(project, f"tests/test_{name}.py"), "t.py", "exec"), tests)
    key = dict.fromkeys(handler["api"].tables, "booking_id")
    found = [test for name, test in tests.items() if name.startswith("test_")]
    assert len(found) == 3
    for test in found:
        with FakeAws(handler["api"], key) as aws:
            test(aws)


def test_a_command_is_written_whole_and_its_tests_pass(project: Path) -> None:
    before = content(project)
    told = stdout_of("new", "command", "bookings")
    assert "once send --route 'POST /bookings' --sign" in told
    registry = text_of(project, "registry_of_*.py")
    assert (
        "from once.cdk import Auth, CommandProps, ConsumerProps, Registry, TableProps" in registry
    )
    assert "commands=COMMANDS" in registry
    assert 'routes={"POST /bookings": "create-booking"},' in registry
    assert {name for name in before if content(project)[name] != before[name]} == {
        path.name for path in project.glob("registry_of_*.py")
    }
    assert 'once_aws("bookings")' in text_of(project, "tests/test_bookings.py")
    command_tests(project, "bookings")
    (file,) = project.glob("registry_of_*.py")
    assert ruff_accepts(project)
    again = with_commands(registry, CommandLine(name="gift_cards"), file)
    assert again.count("COMMANDS = (") == again.count("commands=COMMANDS") == 1
    assert 'routes={"POST /gift-cards": "create-gift-card"},' in again


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("CONSUMERS = (", "is no Python"),
        (f"{IMPORT}CONSUMERS = (\n)\n", "has no tuple COMMANDS: add"),
        (f"{IMPORT}COMMANDS = ()\n", "each entry on lines of its own"),
        ("COMMANDS = (\n)\n", "does not import Auth and CommandProps and TableProps"),
    ],
)
def test_a_registry_that_can_take_no_commands_is_refused(source: str, said: str) -> None:
    with pytest.raises(OpsError, match=said):
        with_commands(source, CommandLine(name="bookings"), Path("registry.py"))


def test_a_registry_of_many_lines_and_names_takes_commands() -> None:
    source = (
        f"from once.cdk import ConsumerProps, Registry, TableProps, {'X' * 30}\n\n"
        "CONSUMERS = (\n)\nREGISTRY = Registry(\n    CONSUMERS,\n    deployed=1,\n)\n"
    )
    made = with_commands(source, CommandLine(name="bookings"), Path("registry.py"))
    assert made.startswith("from once.cdk import (\n    Auth,\n    CommandProps,\n")
    assert "    deployed=1,\n    commands=COMMANDS,\n)\n" in made
    assert made.index("CONSUMERS = (") < made.index("BOOKINGS = ") < made.index("COMMANDS = (")
    compile(made, "registry.py", "exec")
