"""The command line: options as text, the subject it checks, its exit codes, and its errors."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from redelivery import MEANING, Answer, Fault, NoVerdict, Report, Subject, SubjectError, Table
from redelivery.command import main
from redelivery.options import (
    parse_answer,
    parse_duration,
    parse_event,
    parse_fault,
    parse_items,
    parse_pair,
    parse_table,
)
from tests.architecture.imports import ROOT
from tests.conformance.support import FAILED, IDLE, PASSED, UNTRUSTWORTHY

SHORT = "check app.handler --event order.json --table orders:order_id"
LONG = (
    f"{SHORT} --table seen:pk,ttl=expires --items orders=items.json --env TABLE=orders "
    "--env 'URL={queue:mails}' --queue mails --topic sales --bucket files "
    "--answer 'POST https://pay.example=201' --key data.order_id --root . --no-batch-failures "
    "--fifo --batch-size 1 --timeout 15s --visibility 2m --max-receives 3 --horizon 4d "
    "--keep vendor --ignore orders.at --repeatable mails --skip poison --only redriven --seed 9 "
    "--deep 1m"
)


class Check:
    """Stands in for the check: keeps what it was given, and returns or raises what it is told."""

    def __init__(self) -> None:
        self.outcome: Report | BaseException = PASSED
        self.subject: Subject | None = None
        self.options: dict[str, Any] = {}

    def __call__(self, subject: Subject, **options: Any) -> Report:
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
        tables=(
            Table("orders", "order_id", items=[{"order_id": "o-0"}]),
            Table("seen", "pk", ttl="expires"),
        ),
        queues=("mails",),
        topics=("sales",),
        buckets=("files",),
        answers=(Answer("https://pay.example", 201, method="POST"),),
        key="data.order_id",
        batch_failures=False,
        batch_size=1,
        fifo=True,
        timeout_seconds=15,
        visibility_seconds=120,
        max_receives=3,
        horizon_seconds=4 * 86400,
        keep=("vendor",),
        ignore=("orders.at",),
        repeatable=("mails",),
        skip=(Fault.POISON,),
    )
    assert check.options == {"seed": 9, "only": ["redriven"], "replay": "", "deep": 60}


def test_options_that_are_not_given_have_the_defaults_of_a_subject(
    check: Check, tmp_path: Path
) -> None:
    assert run(SHORT) == 0
    [order, orders] = (tmp_path / "order.json", Table("orders", "order_id"))
    assert check.subject == Subject("app.handler", (order,), root=tmp_path, tables=(orders,))
    assert check.options == {"seed": 1, "only": [], "replay": "", "deep": 0}


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (PASSED, 0),
        (FAILED, 1),
        (SubjectError("app has no function handler"), 2),
        (NoVerdict("a file outlives the runs"), 3),
        (UNTRUSTWORTHY, 3),
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
    check.outcome = replace(FAILED, results=(replace(told, **change),), controls={})
    assert run(f"{SHORT} --replay dies-after@1.2") == code
    text = capsys.readouterr().out
    assert "Step 1 of dies-after@1.2." in text
    assert shown in text


def test_the_printed_command_repeats_the_scenario(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check.outcome = FAILED
    run(LONG)
    lines = (line.strip() for line in capsys.readouterr().out.splitlines())
    command, *_ = (line for line in lines if line.startswith("redelivery "))
    before = check.subject
    [told, *_] = FAILED.failures
    check.outcome = replace(FAILED, results=(told,))
    assert run(command.removeprefix("redelivery ")) == 1
    assert check.subject == before
    assert check.options == {
        "seed": 9,
        "only": ["redriven"],
        "replay": "dies-after@1.2",
        "deep": 60,
    }


def test_json_is_all_that_stdout_has(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    check.outcome = FAILED
    assert run(f"{SHORT} --json") == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["verdict"] == "failed"
    assert captured.err == ""


def test_options_add_to_a_subject_that_is_declared(check: Check, tmp_path: Path) -> None:
    (tmp_path / "declared.py").write_text(
        "from redelivery import Subject, Table\n"
        "ORDERS = Subject('app.handler', [{}], tables=[Table('a', 'id')], queues=['q'])\n"
    )
    line = "check --subject declared:ORDERS --table b:id --queue r --env A=1 --max-receives 2"
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


def test_all_mistakes_are_reported_together(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (
        "check app.handler --root nowhere --table x --table a:k --table a:k --items b=items.json "
        "--env A --answer x --timeout soon --skip rain --only snow --json --replay poison@1"
    )
    assert run(line) == 2
    assert check.subject is None
    errors = capsys.readouterr().err.splitlines()
    named = ["root", "event", "env", "table", "table", "items", "answer", "skip", "timeout"]
    options = [error.removeprefix("error: --").split()[0].strip(":") for error in errors[:-1]]
    assert sorted(options) == sorted([*named, "only", "replay"])
    assert errors[-1] == "redelivery check --help lists the options"


@pytest.mark.parametrize("line", ["check app.handler --loud", "test"])
def test_a_wrong_command_is_a_usage_error(
    check: Check, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line) == 2
    assert "Usage: redelivery" in capsys.readouterr().err


def test_an_error_does_not_control_the_terminal(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    check.outcome = SubjectError("\x1b[2J[bold]body")
    run(SHORT)
    assert capsys.readouterr().err == "error: \\x1b[2J[bold]body\n"


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


def test_the_faults_are_listed_with_their_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("faults") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert all(f"{fault} {MEANING[fault]}" in words for fault in Fault)


def test_the_module_is_the_command() -> None:
    arguments = [sys.executable, "-m", "redelivery", "--version"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "conformance")}
    printed = subprocess.check_output(arguments, env=environment, text=True)
    assert re.fullmatch(r"redelivery \d+\.\d+\.\d+\n", printed)


# Options as text: what they become, and that each mistake is explained.


PAY = "https://pay.example/v1/charges"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with files that options name."""
    (tmp_path / "stock.json").write_text('[{"sku": "a", "price": 1.1}]')
    (tmp_path / "one.json").write_text('{"sku": "a"}')
    (tmp_path / "page.html").write_text("<p>paid</p>")
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    ("text", "answer"),
    [
        (PAY, Answer(PAY)),
        (f"POST {PAY}", Answer(PAY, method="POST")),
        (f"post {PAY}=503", Answer(PAY, 503, method="POST")),
        (f'{PAY}=200:{{"id": "ch_1"}}', Answer(PAY, body={"id": "ch_1"})),
        (f"{PAY}?a=b=404:one.json", Answer(f"{PAY}?a=b", 404, {"sku": "a"})),
        (f"{PAY}=200:page.html", Answer(PAY, body=b"<p>paid</p>")),
    ],
)
def test_an_answer_is_read(text: str, answer: Answer) -> None:
    assert parse_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("12h", 43200), ("14d", 1209600)]
)
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


def test_items_have_decimals_since_boto3_takes_no_floats() -> None:
    assert parse_items("stock=stock.json") == ("stock", [{"sku": "a", "price": Decimal("1.1")}])


@pytest.mark.parametrize(
    ("piped", "event"), [('{"id": 1}', {"id": 1}), ("plain text", "plain text")]
)
def test_an_event_is_read_from_standard_input(
    piped: str, event: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    assert parse_event("-") == event


def test_an_event_in_a_file_is_an_absolute_path(folder: Path) -> None:
    assert parse_event("one.json") == folder / "one.json"


@pytest.mark.parametrize(
    ("parse", "text", "remedy"),
    [
        (parse_table, "orders", "write name:key"),
        (parse_table, ":order_id", "write name:key"),
        (parse_table, "orders:", "write name:key"),
        (parse_table, "orders:a:b:c", "write name:key"),
        (parse_table, "orders:a,ttl", "'ttl' is not ttl=attribute, no-ttl, compared or"),
        (parse_items, "stock", r"write table=file\.json"),
        (parse_items, "stock=none.json", "cannot be read: No such file"),
        (parse_items, "stock=page.html", "holds no JSON"),
        (parse_items, "stock=one.json", "a JSON list of objects"),
        (parse_answer, "pay.example=200", r"write \[METHOD "),
        (parse_answer, f"{PAY}=200:none.json", "neither JSON nor a readable file"),
        (parse_duration, "two days", "for example 90s"),
        (parse_duration, "0s", "a number above 0"),
        (parse_pair, "TABLE", "write NAME=VALUE"),
        (parse_pair, "=orders", "write NAME=VALUE"),
        (parse_event, "none.json", "no such file; give a message's body"),
        (parse_fault, "dies-befor", r"did you mean dies-before\?"),
        (parse_fault, "rain", "`redelivery faults` lists them"),
    ],
)
def test_a_mistake_says_how_to_correct_it(parse: Any, text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parse(text)


def test_empty_standard_input_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    with pytest.raises(ValueError, match="pipe a message's body"):
        parse_event("-")
