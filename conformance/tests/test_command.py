"""The command line: the subjects it checks, what it accepts, its exit codes, and its errors."""

import io
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from redelivery import Answer, Index, NoVerdict, Report, Subject, SubjectError, Table
from redelivery.command import main
from redelivery.project import parse_table

from .support import DOUBLED, FAILED, IDLE, LOST, PASSED, result

SHORT = "check app.handler --event order.json --table orders:order_id"
LONG = (
    f"{SHORT} --table seen:pk,ttl=expires --env TABLE=orders --env 'URL={{queue:mails}}' "
    "--queue mails --topic sales --bucket files --key data.order_id --root . --skip poison "
    "--set 'timeout_seconds = 15' --set 'ignore=[\"orders.at\"]' --only redriven --seed 9"
)


class Check:
    """Stands in for the check: keeps what it was given, and returns or raises what it is told."""

    def __init__(self) -> None:
        self.outcome: Report | BaseException = PASSED
        self.subject: Subject | None = None
        self.options: dict[str, Any] = {}

    def __call__(self, subject: Subject, **options: Any) -> Report:
        options.pop("tell", None)
        self.subject, self.options = subject, options
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    (tmp_path / "order.json").write_text('{"order_id": "o-1"}')
    (tmp_path / "items.json").write_text('[{"order_id": "o-0"}]')
    monkeypatch.chdir(tmp_path)
    fake = Check()
    monkeypatch.setattr("redelivery.command.run_check", fake)
    return fake


def run(line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_options_describe_a_subject(check: Check, tmp_path: Path) -> None:
    assert run(LONG) == 0
    assert check.subject == Subject(
        "app.handler",
        (tmp_path / "order.json",),
        root=tmp_path,
        environment={"TABLE": "orders", "URL": "{queue:mails}"},
        tables=(Table("orders", "order_id"), Table("seen", "pk", ttl="expires")),
        queues=("mails",),
        topics=("sales",),
        buckets=("files",),
        key="data.order_id",
        timeout_seconds=15,
        ignore=("orders.at",),
        skip=("poison",),
    )
    given = {"seed": 9, "only": ["redriven"]}
    assert check.options == given


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (PASSED, 0),
        (FAILED, 1),
        (SubjectError("app has no function handler"), 2),
        (NoVerdict("a file outlives the runs"), 3),
        (IDLE, 3),
        (RuntimeError("of the kit itself"), 3),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_exit_code_is_the_verdict(
    check: Check, outcome: Any, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    check.outcome = outcome
    assert run(SHORT) == code
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "code", "shown"),
    [
        ({"differences": (), "fired": True}, 0, "It ends as the clean run does."),
        ({}, 1, "doubled × 2: orders order_id=o-1"),
        ({"fired": False}, 3, "The fault did not take place"),
    ],
)
def test_a_replay_tells_one_scenario_and_ends_with_its_verdict(
    check: Check, change: dict[str, Any], code: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [told, *_] = FAILED.failures
    check.outcome = replace(FAILED, results=(replace(told, **change),))
    assert run(f"{SHORT} --replay dies-after@1.2") == code
    text = capsys.readouterr().out
    assert "Step 1 of dies-after@1.2." in text
    assert shown in text


def test_the_printed_command_repeats_the_scenario(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check.outcome = FAILED
    run(LONG)
    lines = (line.strip() for line in capsys.readouterr().out.splitlines())
    command, *_ = (line for line in lines if line.startswith("redelivery "))
    before = check.subject
    [told, *_] = FAILED.shortest
    check.outcome = replace(FAILED, results=(told,))
    assert run(command.removeprefix("redelivery ")) == 1
    assert check.subject == before
    assert check.options == {"seed": 7, "replay": told.scenario}


def test_json_is_all_that_stdout_has(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    check.outcome = FAILED
    assert run(f"{SHORT} --format json") == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "failed"
    assert captured.err == ""


def test_options_add_to_a_subject_that_is_declared(check: Check, tmp_path: Path) -> None:
    (tmp_path / "declared.py").write_text(
        "from redelivery import Subject, Table\n"
        "ORDERS = Subject('app.handler', [{}], tables=[Table('a', 'id')], queues=['q'])\n"
    )
    line = "check --subject declared:ORDERS --table b:id --queue r --env A=1 --set max_receives=2"
    assert run(line) == 0
    assert check.subject == Subject(
        "app.handler",
        [{}],
        root=tmp_path,
        tables=(Table("a", "id"), Table("b", "id")),
        queues=("q", "r"),
        environment={"A": "1"},
        max_receives=2,
    )
    assert run("check --subject declared:NONE") == 2
    assert run("check") == 2


PROJECT = """
[tool.redelivery.orders]
handler = "app.handler"
root = "service"
events = ["order.json", {order_id = "o-2"}]
environment = {TABLE = "orders"}
tables = [
    "orders:order_id,no-ttl",
    {name = "stock", key = "sku", items = "items.json", indexes = [{name = "by", key = "at:N"}]},
]
answers = [{url = "https://pay.example", status = 201, method = "POST"}]
timeout_seconds = 15
fifo = true

[tool.redelivery.mails]
subject = "of_mails:MAILS"
"""


@pytest.fixture
def below(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below a project with two entries."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "of_mails.py").write_text(
        "from redelivery import Subject\nMAILS = Subject('mails.handler', [{}])\n"
    )
    folder = tmp_path / "below"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("below")
def test_an_entry_of_the_project_is_a_subject(check: Check, tmp_path: Path) -> None:
    assert run("check orders --set max_receives=3") == 0
    assert check.subject == Subject(
        "app.handler",
        (tmp_path / "order.json", {"order_id": "o-2"}),
        root=tmp_path / "service",
        environment={"TABLE": "orders"},
        tables=(
            Table("orders", "order_id", ttl=None),
            Table("stock", "sku", items=[{"order_id": "o-0"}], indexes=(Index("by", "at:N"),)),
        ),
        answers=(Answer("https://pay.example", 201, method="POST"),),
        timeout_seconds=15,
        fifo=True,
        max_receives=3,
    )


TEMPLATE = """
Resources:
  Inbox: {Type: AWS::SQS::Queue}
  Orders:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: orders
      AttributeDefinitions: [{AttributeName: order_id, AttributeType: S}]
      KeySchema: [{AttributeName: order_id, KeyType: HASH}]
      TimeToLiveSpecification: {AttributeName: gone, Enabled: true}
  Store:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      Events: {In: {Type: SQS, Properties: {Queue: !GetAtt Inbox.Arn}}}
"""


def test_a_template_takes_more_from_python_and_from_an_entry(check: Check, below: Path) -> None:
    folder = below.parent
    (folder / "template.yaml").write_text(TEMPLATE)
    (folder / "more.py").write_text(
        "from redelivery import Subject, Table\n"
        "called = []\n"
        "ITEMS = [{'order_id': 'o-0'}]\n"
        "MORE = Subject('', [{}], tables=[Table('orders', 'order_id', items=ITEMS)],\n"
        "               set_up=lambda: called.append(1))\n"
    )
    entry = "[tool.redelivery.store]\nhandler = 'Store'\nsubject = 'more:MORE'\nmax_receives = 3"
    (folder / "pyproject.toml").write_text(entry)
    assert run("check store --template ../template.yaml --set timeout_seconds=9") == 0
    given = check.subject
    assert given is not None
    assert (given.function, given.max_receives, given.timeout_seconds) == ("Store", 3, 9)
    [table] = given.tables
    assert (table.key, table.ttl, table.items) == ("order_id:S", "gone", [{"order_id": "o-0"}])
    with mock_aws():
        given.set_up()
    assert sys.modules["more"].called == [1]


@pytest.mark.usefixtures("below")
def test_without_a_name_every_entry_is_checked(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check.outcome = FAILED
    assert run("check --format json") == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert check.subject is not None
    assert check.subject.handler == "mails.handler"
    assert run("check") == 1
    assert "redelivery check mails --replay dies-after@1.2" in capsys.readouterr().out
    assert run("check --replay dies-after@1.2") == 2
    assert "name one of orders, mails" in capsys.readouterr().err


def test_an_entry_that_cannot_be_checked_does_not_stop_the_others(
    check: Check, below: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (below.parent / "pyproject.toml").write_text(PROJECT.replace("items.json", "missing.json"))
    check.outcome = FAILED
    assert run("check --format json") == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "failed"
    assert "missing.json" in captured.err


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("x = 1", r"\[tool\.redelivery\.x\] is no table of fields"),
        ("[tool.redelivery.x]", r"\[tool\.redelivery\.x\] has no handler, template or subject"),
        ("[tool.redelivery.x]\nevent = []", "event is no field here; did you mean events?"),
        ("[tool.redelivery.x]\nstores = []", "stores is no field here; declare the subject in"),
        ("[tool.redelivery.x]\nfifo = 1", "fifo is 1; write it as bool"),
        ("[tool.redelivery.x]\ntables = ['orders']", "write name:key"),
        ("[tool.redelivery.x]\ntables = [{name = 'a', kee = 'b'}]", "unexpected keyword.*kee"),
        ("[tool.redelivery.x]\nsubject = 'no.such:X'", "No module named 'no'.*as module:NAME"),
        ("[", "cannot read .*pyproject.toml"),
    ],
)
def test_a_wrong_entry_is_explained(
    check: Check, tmp_path: Path, entry: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.redelivery]\n{entry}")
    assert run("check x") == 2
    assert check.subject is None
    assert re.search(told, capsys.readouterr().err)


# Accepted failures: kept in a file with their reason; new ones fail.


def test_accepted_failures_pass_and_new_ones_fail(
    check: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check.outcome = replace(FAILED, results=FAILED.results[:-2])  # without dies-after@1.2
    assert run(f"accept {SHORT.removeprefix('check ')} --reason 'a mail too many'") == 0
    kept = json.loads((tmp_path / "redelivery-accepted.json").read_text())
    assert [(each["fault"], each["kind"], each["reason"]) for each in kept] == [
        ("dies-after", "doubled", "a mail too many"),
        ("dies-after", "lost", "a mail too many"),
    ]
    check.outcome = FAILED
    assert run(SHORT) == 0
    output = capsys.readouterr().out
    assert "dies-after: lost: message to mails: a mail too many" in output
    assert "in 2 of 4 scenarios of 3 faults, and otherwise, as accepted, in 2" in output
    new = result("redriven@2", LOST)
    check.outcome = replace(FAILED, results=(new,))
    assert run(SHORT) == 1
    check.outcome = replace(FAILED, results=(result("dies-after@1.1", DOUBLED),))
    assert run(SHORT) == 0
    assert "not found any more: dies-after: lost: message to mails" in capsys.readouterr().out
    # Another function, of the same handler or not, has failures of its own.
    for other in (
        {"handler": "other.handler"},
        {"function": "Mails"},
        {"root": tmp_path / "mails"},
    ):
        check.outcome = replace(FAILED, **other)
        assert run(SHORT) == 1
        assert "not found any more" not in capsys.readouterr().out


def test_a_file_that_is_not_readable_is_an_error(check: Check, tmp_path: Path) -> None:
    (tmp_path / "redelivery-accepted.json").write_text("[{}]")
    assert run(SHORT) == 2
    assert check.subject is None


@pytest.mark.parametrize("outcome", [PASSED, FAILED])
def test_an_encoding_without_the_signs_does_not_fail(
    check: Check, outcome: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    check.outcome = outcome
    assert run(SHORT) == (0 if outcome is PASSED else 1)
    sys.stdout.flush()
    assert b"\\u2713" in written.getvalue()


# Options as text: what they become, and that each mistake is explained.


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("orders:order_id", Table("orders", "order_id")),
        ("orders:customer:placed_at", Table("orders", "customer", "placed_at")),
        ("days:day:N", Table("days", "day:N")),
        ("days:shop:S:day:N", Table("days", "shop:S", "day:N")),
        ("odd:pk:S:N", Table("odd", "pk:S", "N")),
        ("seen:pk,ttl=expires", Table("seen", "pk", ttl="expires")),
        ("seen:pk,ttl=expires,compared", Table("seen", "pk", ttl="expires", compared=True)),
        ("offers:pk,no-ttl", Table("offers", "pk", ttl=None)),
        ("log:pk,not-compared", Table("log", "pk", compared=False)),
    ],
)
def test_a_table_is_read(text: str, table: Table) -> None:
    assert parse_table(text) == table


@pytest.mark.parametrize(
    ("piped", "event"), [('{"id": 1}', {"id": 1}), ("plain text", "plain text")]
)
def test_an_event_is_read_from_standard_input(
    check: Check, piped: str, event: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    assert run("check app.handler --event -") == 0
    # All else has its default.
    assert check.subject == Subject("app.handler", (event,), root=Path.cwd())
    assert check.options == {"seed": 1, "only": []}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--table orders", "write name:key"),
        ("--table :order_id", "write name:key"),
        ("--table orders:", "write name:key"),
        ("--table orders:a:b:c", "write name:key"),
        ("--table orders:a,ttl", "write name:key"),
        ("--env TABLE", "write NAME=VALUE"),
        ("--env =orders", "write NAME=VALUE"),
        ("--event -", "standard input is empty; pipe a message's body"),
        ("--root nowhere", "'nowhere' does not exist"),
        ("--set fifo", "write FIELD=VALUE as TOML"),
        ("--set fifo=1", "fifo is 1; write it as bool"),
        ("--skip rain", "'rain' is not one of 'dies-before'"),
        ("--only snow", "'snow' is not one of 'dies-before'"),
        ("--loud", "No such option"),
    ],
)
def test_a_mistake_says_how_to_correct_it(
    check: Check,
    options: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    assert run(f"check app.handler {options}") == 2
    assert check.subject is None
    assert told in " ".join(capsys.readouterr().err.split())
