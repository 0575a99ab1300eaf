"""An app of 40 lines, outside this repository, gives an existing table and queue a consumer."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.testing import cloud_event
from tests.wheel.conftest import APP, Stranger, step

WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Deployed:
    """The app on an embedded AWS of its own."""

    aws: EmbeddedAws
    queue_url: str
    outputs: dict[str, str]

    def receive(self, url: str) -> list[Any]:
        answer = self.aws.client("sqs").receive_message(QueueUrl=url)
        return list(answer.get("Messages", []))

    def waiting(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    def items(self, table: str) -> list[Any]:
        items: list[Any] = self.aws.client("dynamodb").scan(TableName=table)["Items"]
        return items

    def dedup_records(self) -> list[Any]:
        tables = self.aws.client("dynamodb").list_tables()["TableNames"]
        [table] = (name for name in tables if name != "seats")
        return self.items(table)


@pytest.fixture(scope="module")
def deployed(stranger: Stranger) -> Iterator[Deployed]:
    with embedded_aws() as aws:
        queue_url, arns = _existing(aws)
        with step("account bootstrapped"):
            bootstrap(aws)
        with step("app deployed"):
            stacks = deploy(
                aws,
                app=f"{stranger.venv / 'bin' / 'python'} app.py",
                cwd=stranger.folder,
                context=arns,
                outputs=aws.state_dir / "outputs.json",
            )
        yield Deployed(aws, queue_url, stacks["tickets"])


def _existing(aws: EmbeddedAws) -> tuple[str, dict[str, str]]:
    """Make the table and the queue by plain calls; return the queue's URL and the ARNs."""
    table = aws.client("dynamodb").create_table(
        TableName="seats",
        KeySchema=[{"AttributeName": "show", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "show", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName="bookings", Attributes={"VisibilityTimeout": "180"})[
        "QueueUrl"
    ]
    queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arns = {
        "seats_arn": table["TableDescription"]["TableArn"],
        "bookings_arn": queue["Attributes"]["QueueArn"],
    }
    return url, arns


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_message_that_is_sent_twice_changes_the_table_once(deployed: Deployed) -> None:
    hall = {"show": {"S": "Hamlet"}, "available": {"N": "10"}}
    deployed.aws.client("dynamodb").put_item(TableName="seats", Item=hall)
    body = json.dumps(cloud_event("seat.booked", {"show": "Hamlet", "seats": 2}))
    for _ in range(2):
        deployed.aws.client("sqs").send_message(QueueUrl=deployed.queue_url, MessageBody=body)
    with step("both messages settled"):
        wait_until(lambda: deployed.waiting(deployed.queue_url) == 0)
    [seats] = deployed.items("seats")
    assert seats["available"] == {"N": "8"}
    [record] = deployed.dedup_records()
    assert record["pk"]["S"].startswith("tickets#")
    assert deployed.waiting(deployed.outputs["DeadLetters"]) == 0


def test_a_body_that_cannot_be_read_is_dead_lettered(deployed: Deployed) -> None:
    deployed.aws.client("sqs").send_message(QueueUrl=deployed.queue_url, MessageBody="no event")
    wait_until(lambda: deployed.waiting(deployed.outputs["DeadLetters"]) == 1)
    [letter] = deployed.receive(deployed.outputs["DeadLetters"])
    assert letter["Body"] == "no event"


def test_what_is_built_lies_below_the_apps_folder(deployed: Deployed, stranger: Stranger) -> None:
    [package] = (stranger.folder / "build").iterdir()
    assert package.name.startswith("tickets-")
    assert (stranger.folder / ".cache" / "site").is_dir()
    assert not {"cdk", "ops", "testing"} & {path.name for path in (package / "once").iterdir()}


def test_the_app_has_forty_lines_at_most() -> None:
    assert len((APP / "app.py").read_text().splitlines()) <= 40
