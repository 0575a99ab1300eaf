"""Operators in the embedded AWS, as processes: twenty that are killed, and two at once."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from demo.quiescence import wait_until
from emulator.embedded_aws import ROOT, EmbeddedAws
from once.failures.quarantine import text
from once.names import DeadLetter, StackOutput
from once.ops.aws.clients import depth, total_depth
from once.ops.dead_letters.search import HOLD_SECONDS
from once.ops.errors import ExitCode
from once.testing import cloud_event
from tests.integration.operator_processes import AFTER, BEFORE, Case, command

LETTERS = 12
"""Two pages of a walk."""
FIRST_CALL, LAST_CALL = 5, 14
"""The calls from the first letter's receive on: before it come the depth and the operator log."""
SHORT_HOLD_SECONDS = 4
PATIENCE_SECONDS = 300.0
"""A bound for a busy machine."""
TYPES = {
    "external": ["noted"],
    "events": [],
    "grouped_by": None,
    "keys": {"noted": ["event"]},
    "volatile": {},
}
RESOURCE = {"Wait": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}


class Desk:
    """A deployment of consumers with dead letters, as the operators' commands find it."""

    def __init__(self, aws: EmbeddedAws, folder: Path, names: Sequence[str]) -> None:
        self.aws, self.folder, self.names = aws, folder, names
        self.service = f"desk-{uuid4().hex[:8]}"
        self.sqs, self.dynamodb = aws.client("sqs"), aws.client("dynamodb")
        self.queues = {name: self._queue(name) for name in names}
        self.boxes = {name: self._queue(f"{name}-dead-letters") for name in names}
        self._make_table()
        aws.client("logs").create_log_group(logGroupName=self.service)
        self._make_stacks()
        self.bodies = {name: [self._bury(name, n) for n in range(LETTERS)] for name in names}

    def run(self, *cases: Case) -> list[int]:
        """Run processes to their end; return their exit statuses."""
        ended = subprocess.run(
            command([*cases]), cwd=ROOT, env=self._environment(), capture_output=True, check=True
        )
        found: list[int] = json.loads(ended.stdout)
        return found

    def start(self, case: Case) -> subprocess.Popen[bytes]:
        """Start a process."""
        return subprocess.Popen(
            command([case]), cwd=ROOT, env=self._environment(), stdout=subprocess.PIPE
        )

    def case(self, name: str, *arguments: str, hold: int = HOLD_SECONDS, **values: object) -> Case:
        """Return a process with a folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        every = (*arguments, "--service", self.service)
        return Case(every, hold, str(folder), **values)  # type: ignore[arg-type]

    def hidden(self) -> int:
        return total_depth(self.sqs, self.boxes.values()).in_flight

    def take(self, name: str) -> Counter[str]:
        """Take every body out of a consumer's queue."""
        found: Counter[str] = Counter()
        url = self.queues[name]
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            found.update(message["Body"] for message in messages)
            for message in messages:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.aws.environment(), "COLUMNS": "200"}

    def _queue(self, name: str) -> str:
        return str(self.sqs.create_queue(QueueName=f"{self.service}-{name}")["QueueUrl"])

    def _make_table(self) -> None:
        self.dynamodb.create_table(
            TableName=self.service,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def _make_stacks(self) -> None:
        unused = self._queue("unused")
        arn = f"arn:aws:sns:{self.aws.region}:{self.aws.account}:unused"
        outputs = {
            **dict.fromkeys((StackOutput.INGRESS_TOPIC, StackOutput.EVENTS_TOPIC), arn),
            StackOutput.RELAY_FUNCTION: "unused",
            StackOutput.RELAY_DEAD_LETTERS: unused,
            StackOutput.UNROUTED_QUEUE: unused,
            StackOutput.SWEEP_QUEUE: unused,
        }
        for name in self.names:
            word = name.capitalize()
            outputs |= {
                f"{StackOutput.QUEUE}{word}": self.queues[name],
                f"{StackOutput.DEAD_LETTERS}{word}": self.boxes[name],
                f"{StackOutput.FUNCTION}{word}": f"{self.service}-{name}",
                f"{StackOutput.IDENTITY}{word}": name,
                f"{StackOutput.EVENT_TYPES}{word}": json.dumps(TYPES),
            }
        self._make_stack("service", outputs)
        tables = (StackOutput.DEDUP_TABLE, StackOutput.OPERATOR_LOG)
        self._make_stack("state", dict.fromkeys(tables, self.service))

    def _make_stack(self, part: str, outputs: dict[str, str]) -> None:
        template = {
            "Resources": RESOURCE,
            "Outputs": {key: {"Value": value} for key, value in outputs.items()},
        }
        cloudformation = self.aws.client("cloudformation")
        name = f"{self.service}-{part}"
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template))
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1}
        )

    def _bury(self, name: str, number: int) -> str:
        body = json.dumps(cloud_event("noted", {}, event_id=f"{name}-{number}"))
        attributes = {DeadLetter.REASON: text("retries-exhausted")}
        self.sqs.send_message(
            QueueUrl=self.boxes[name], MessageBody=body, MessageAttributes=attributes
        )
        return body


def test_twenty_killed_redrives_lose_and_hide_no_letter(aws: EmbeddedAws, tmp_path: Path) -> None:
    points = [
        (call, moment) for call in range(FIRST_CALL, LAST_CALL + 1) for moment in (BEFORE, AFTER)
    ]
    names = [f"c{number}" for number in range(len(points))]
    desk = Desk(aws, tmp_path, names)
    redrive = ("dlq", "redrive", "--yes", "--rate", "1000", "--consumer")
    cases = [
        desk.case(name, *redrive, name, hold=SHORT_HOLD_SECONDS, end=point)
        for name, point in zip(names, points, strict=True)
    ]
    assert len(cases) == 20
    assert desk.run(*cases) == [-signal.SIGKILL] * 20
    # With the hold of the command line itself, this takes a minute on an idle machine.
    wait_until("no letter is hidden", lambda: not desk.hidden(), timeout=PATIENCE_SECONDS)
    assert HOLD_SECONDS <= 60
    left = {name: depth(desk.sqs, desk.boxes[name]).visible for name in names}
    sent = {name: desk.take(name) for name in names}
    for name in names:
        assert left[name] + len(sent[name]) >= LETTERS
    assert 0 < sum(left.values()) < 20 * LETTERS  # some were killed early, some late
    assert desk.run(desk.case("again", "dlq", "redrive", "--yes", "--rate", "1000")) == [0]
    for name in names:
        assert set(sent[name] + desk.take(name)) == set(desk.bodies[name]), name
        assert depth(desk.sqs, desk.boxes[name]).total == 0


@pytest.fixture
def desk(aws: EmbeddedAws, tmp_path: Path) -> Desk:
    """A deployment of one consumer."""
    return Desk(aws, tmp_path, ["notes"])


def test_two_operators_at_once_are_told_of_each_other_and_send_each_letter_once(
    desk: Desk, request: pytest.FixtureRequest
) -> None:
    redrive = ("dlq", "redrive", "--yes", "--rate", "1000", "--consumer", "notes", "--json")
    # The first has received ten letters, and none is sent, when the second begins.
    slow = desk.case("slow", *redrive, hold=int(PATIENCE_SECONDS), halt=(FIRST_CALL, AFTER))
    first = desk.start(slow)
    request.addfinalizer(first.kill)
    folder = Path(slow.folder)
    wait_until("the first has letters", (folder / "at").exists, timeout=PATIENCE_SECONDS)
    fast, look = desk.case("fast", *redrive), desk.case("look", "dlq", "list")
    assert desk.run(fast) == [ExitCode.HIDDEN]
    assert desk.run(look) == [ExitCode.HIDDEN]
    (folder / "go").touch()
    assert json.loads(first.communicate(timeout=PATIENCE_SECONDS)[0]) == [0]
    told = {case: json.loads((Path(case.folder) / "stdout").read_text()) for case in (slow, fast)}
    assert (told[fast]["sent"], told[fast]["hidden_by_other_commands"]["number"]) == (2, 10)
    assert (told[slow]["sent"], told[slow]["taken_by_other_commands"]) == (10, 2)
    said = (Path(look.folder) / "stderr").read_text()
    assert "10 hidden until" in said
    assert desk.take("notes") == Counter(desk.bodies["notes"])
    assert depth(desk.sqs, desk.boxes["notes"]).total == 0
