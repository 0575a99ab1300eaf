"""A service outside this repository, on an existing table and queue."""

import json
from dataclasses import dataclass

import pytest

from demo.quiescence import wait_until
from emulator.cdk_cli import deploy
from emulator.embedded_aws import EmbeddedAws
from once.testing import cloud_event
from tests.wheel.conftest import Installation, step

SERVICE = "tickets"


@dataclass(frozen=True)
class Deployed:
    """The service on an embedded AWS of its own."""

    aws: EmbeddedAws
    queue_url: str
    outputs: dict[str, str]

    def waiting(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)


@pytest.fixture(scope="module")
def deployed(installation: Installation, account: EmbeddedAws) -> Deployed:
    queue_url = _existing(account)
    with step("service deployed"):
        stacks = deploy(
            account,
            app=f"{installation.venv / 'bin' / 'python'} app.py",
            cwd=installation.folder,
            outputs=installation.folder / "outputs.json",
        )
    outputs = {**stacks[f"{SERVICE}-state"], **stacks[f"{SERVICE}-service"]}
    return Deployed(account, queue_url, outputs)


def _existing(aws: EmbeddedAws) -> str:
    """Create the table and the queue with plain calls; return the queue's URL."""
    aws.client("dynamodb").create_table(
        TableName="seats",
        KeySchema=[{"AttributeName": "show", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "show", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    queue = {"QueueName": "bookings", "Attributes": {"VisibilityTimeout": "180"}}
    return str(aws.client("sqs").create_queue(**queue)["QueueUrl"])


def test_a_message_that_is_sent_twice_changes_the_table_once(deployed: Deployed) -> None:
    dynamodb = deployed.aws.client("dynamodb")
    hall = {"show": {"S": "Hamlet"}, "available": {"N": "10"}}
    dynamodb.put_item(TableName="seats", Item=hall)
    body = json.dumps(cloud_event("seat.booked", {"show": "Hamlet", "seats": 2}))
    for _ in range(2):
        deployed.aws.client("sqs").send_message(QueueUrl=deployed.queue_url, MessageBody=body)
    with step("both messages settled"):
        wait_until("empty queue", lambda: deployed.waiting(deployed.queue_url) == 0, timeout=300)
    tables = ("seats", deployed.outputs["DedupTable"])
    [seats], [record] = (dynamodb.scan(TableName=name)["Items"] for name in tables)
    assert seats["available"] == {"N": "8"}
    identity = deployed.aws.client("sts").get_caller_identity()
    assert seats["seller"] == {"S": identity["Account"]}  # the client of a further service
    assert record["pk"]["S"].startswith("tickets#")
    assert deployed.waiting(deployed.outputs["DeadLettersTickets"]) == 0


@pytest.mark.usefixtures("deployed")
def test_deployed_names_are_recorded_by_the_app(installation: Installation) -> None:
    done = installation.run("python", "app.py", "record", "outputs.json")
    assert done.stdout == "deployed.json: added tickets, seats; commit it\n", done.stderr
    assert json.loads((installation.folder / "deployed.json").read_text()).keys() == {SERVICE}


@pytest.mark.usefixtures("deployed")
def test_packages_are_built_below_the_apps_folder(installation: Installation) -> None:
    packages = [each.name for each in (installation.folder / "build").iterdir()]
    [package] = [name for name in packages if name.startswith("tickets-")]
    cache = installation.folder / ".cache"
    used = [each.stat().st_mtime for each in (cache / "site").iterdir()]  # each use sets the time
    assert max(used) > cache.stat().st_mtime
    folder = installation.folder / "build" / package / "once"
    assert not {"cdk", "ops", "testing"} & {path.name for path in folder.iterdir()}
