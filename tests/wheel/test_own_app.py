"""An app of 40 lines, outside this repository, with a consumer of an existing table and queue."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from demo.quiescence import wait_until
from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws, embedded_aws
from once.testing import cloud_event
from tests.wheel.conftest import APP, Installation, step


@dataclass(frozen=True)
class Deployed:
    """The app on an embedded AWS of its own."""

    aws: EmbeddedAws
    queue_url: str
    outputs: dict[str, str]

    def waiting(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)


@pytest.fixture(scope="module")
def deployed(installation: Installation) -> Iterator[Deployed]:
    with embedded_aws() as aws:
        queue_url, arns = _existing(aws)
        with step("account bootstrapped"):
            bootstrap(aws)
        with step("app deployed"):
            stacks = deploy(
                aws,
                app=f"{installation.venv / 'bin' / 'python'} app.py",
                cwd=installation.folder,
                context=arns,
                outputs=aws.state_dir / "outputs.json",
            )
        yield Deployed(aws, queue_url, stacks["tickets"])


def _existing(aws: EmbeddedAws) -> tuple[str, dict[str, str]]:
    """Create the table and the queue with plain calls; return the queue's URL and both ARNs."""
    table = aws.client("dynamodb").create_table(
        TableName="seats",
        KeySchema=[{"AttributeName": "show", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "show", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    sqs, attributes = aws.client("sqs"), {"VisibilityTimeout": "180"}
    url = sqs.create_queue(QueueName="bookings", Attributes=attributes)["QueueUrl"]
    queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, {
        "seats_arn": table["TableDescription"]["TableArn"],
        "bookings_arn": queue["Attributes"]["QueueArn"],
    }


def test_a_message_that_is_sent_twice_changes_the_table_once(deployed: Deployed) -> None:
    dynamodb = deployed.aws.client("dynamodb")
    hall = {"show": {"S": "Hamlet"}, "available": {"N": "10"}}
    dynamodb.put_item(TableName="seats", Item=hall)
    body = json.dumps(cloud_event("seat.booked", {"show": "Hamlet", "seats": 2}))
    for _ in range(2):
        deployed.aws.client("sqs").send_message(QueueUrl=deployed.queue_url, MessageBody=body)
    with step("both messages settled"):
        wait_until("empty queue", lambda: deployed.waiting(deployed.queue_url) == 0, timeout=60)
    [dedup_table] = {*dynamodb.list_tables()["TableNames"]} - {"seats"}
    [seats], [record] = (dynamodb.scan(TableName=name)["Items"] for name in ("seats", dedup_table))
    assert seats["available"] == {"N": "8"}
    assert record["pk"]["S"].startswith("tickets#")
    assert deployed.waiting(deployed.outputs["DeadLetters"]) == 0


def test_a_body_that_cannot_be_read_is_dead_lettered(deployed: Deployed) -> None:
    sqs, dead_letters = deployed.aws.client("sqs"), deployed.outputs["DeadLetters"]
    sqs.send_message(QueueUrl=deployed.queue_url, MessageBody="no event")
    wait_until("a dead letter", lambda: deployed.waiting(dead_letters) == 1, timeout=60)
    [letter] = sqs.receive_message(QueueUrl=dead_letters)["Messages"]
    assert letter["Body"] == "no event"


@pytest.mark.usefixtures("deployed")
def test_packages_are_built_below_the_apps_folder(installation: Installation) -> None:
    [package] = (installation.folder / "build").iterdir()
    assert package.name.startswith("tickets-")
    assert (installation.folder / ".cache" / "site").is_dir()
    assert not {"cdk", "ops", "testing"} & {path.name for path in (package / "once").iterdir()}


def test_the_app_has_forty_lines_at_most() -> None:
    assert len((APP / "app.py").read_text().splitlines()) <= 40
