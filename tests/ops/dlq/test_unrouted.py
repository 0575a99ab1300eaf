"""Unrouted events are shown with their reason, and published if a consumer takes them now."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from once.ops.dead_letters import queue_walk as walk
from once.outbox.unrouted import Sweep
from once.schema import Reason
from once.settings import SweepSettings
from once.testing import cloud_event
from tests.ops.support import REGION, Cloud, answer_with, run

OWN = ("--consumer", "unrouted")
LOST = "order.lost"


def string(value: str) -> dict[str, str]:
    return {"Type": "String", "Value": value}


def event(event_type: str = "order.placed", **more: Any) -> str:
    return json.dumps(cloud_event(event_type, {"order_id": "o-1"}, **more))


@dataclass
class Yard:
    """The unrouted queue of a deployment, filled by the function itself."""

    cloud: Cloud

    def __post_init__(self) -> None:
        outputs = self.cloud.outputs["once-service"]
        self.url, self.ingress = outputs["UnroutedQueue"], outputs["IngressTopicArn"]
        settings = SweepSettings(routes={self.ingress: ("order.placed",)}, unrouted_url=self.url)
        self._sweep = Sweep.of(settings, region=REGION)

    def publish(self, *messages: str, **attributes: Any) -> None:
        """Let the function look at published messages."""
        bodies = [self.envelope(message, **attributes) for message in messages]
        records = [{"messageId": str(n), "body": body} for n, body in enumerate(bodies)]
        assert self._sweep.handle({"Records": records}) == {"batchItemFailures": []}

    def envelope(self, message: str, **attributes: Any) -> str:
        return json.dumps(
            {
                "Type": "Notification",
                "TopicArn": self.ingress,
                "Message": message,
                "Timestamp": "2026-05-02T00:54:06.655Z",
                "MessageAttributes": attributes,
            }
        )

    def move(self, body: str) -> None:
        """Have SNS or SQS move a message here, without a reason."""
        self.cloud.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def left(self) -> int:
        answer = self.cloud.sqs.get_queue_attributes(
            QueueUrl=self.url, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])


@pytest.fixture
def yard(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setattr(walk, "WAIT_SECONDS", 0)
    return Yard(cloud)


def listed(*options: str) -> list[dict[str, Any]]:
    answer = json.loads(run("dlq", "list", "--json", *OWN, *options).stdout)
    found: list[dict[str, Any]] = answer["letters"]
    return found


def redrive(*options: str) -> Any:
    return run("dlq", "redrive", "--rate", "1000", *OWN, *options)


def test_unrouted_events_are_listed_with_their_reason(yard: Yard) -> None:
    yard.publish(event())
    yard.publish(event(LOST), type=string(LOST))
    yard.publish(event(), type=string("order.placed"), **{f"a{n}": string("x") for n in range(10)})
    yard.publish("order 12, please")
    assert {(letter["reason"], letter["event_type"]) for letter in listed()} == {
        (Reason.NO_TYPE, "order.placed"),
        (Reason.UNSUBSCRIBED_TYPE, LOST),
        (Reason.TOO_MANY_ATTRIBUTES, "order.placed"),
        (Reason.NO_TYPE, None),
    }
    assert [letter["reason"] for letter in listed("--reason", "no-type", "--key", "none")] == []
    assert {letter["first_seen"] for letter in listed()} == {"2026-05-02T00:54:06.655000+00:00"}


def test_one_is_shown_with_its_error_its_attributes_and_its_remedy(yard: Yard) -> None:
    yard.publish(event(LOST), type=string(LOST), tenant=string("x"))
    [letter] = listed()
    shown = " ".join(run("dlq", "show", letter["message_id"]).stdout.split())
    assert "consumer unrouted reason unsubscribed-type" in shown
    assert '"tenant": {"stringValue": "x"' in shown
    assert "if sent back stays: no consumer takes 'order.lost' from producers: add it to" in shown


def test_s3_an_event_that_a_consumer_takes_is_published_with_its_own_type(yard: Yard) -> None:
    body = event()
    yard.publish(body)
    yard.publish(event(LOST))
    result = redrive()
    assert result.exit_code == 1
    assert "add it to `external=` of a consumer and deploy" in result.stderr
    for consumer in ("orders", "inventory"):  # whose filter policies select by the attribute
        assert yard.cloud.take(consumer) == {body: 1}
    assert [letter["event_type"] for letter in listed()] == [LOST]


def test_after_a_deployment_that_takes_its_type_an_event_is_published(yard: Yard) -> None:
    yard.publish(event(LOST), type=string(LOST))
    assert redrive().exit_code == 1
    outputs = yard.cloud.outputs["once-service"]
    outputs["TakesOrders"] = json.dumps({"external": ["order.placed", LOST], "events": []})
    assert redrive().exit_code == 0
    assert yard.left() == 0


def test_more_than_ten_attributes_are_left_out(yard: Yard) -> None:
    body = event()
    yard.publish(body, **{f"a{n}": string("x") for n in range(10)}, type=string("order.placed"))
    assert redrive().exit_code == 0
    assert yard.cloud.take("orders") == {body: 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("order 12, please", "no consumer can read it (unparseable"),
        (event(LOST), "no consumer takes 'order.lost' from producers"),
        (event(source="/once/payments"), "/once/payments publishes it, a consumer and no producer"),
    ],
)
def test_an_event_that_no_consumer_would_take_stays_even_if_it_is_named(
    yard: Yard, body: str, why: str
) -> None:
    yard.publish(body)
    [letter] = listed()
    result = run("dlq", "redrive", letter["message_id"], "--unsafe", *OWN)
    assert result.exit_code == 1
    assert why in result.stderr
    assert yard.left() == 1
    assert yard.cloud.take("orders") == {}


def test_an_event_that_sns_could_not_deliver_is_published_as_it_was(yard: Yard) -> None:
    raw, enveloped = event(event_id="raw"), event(event_id="enveloped")
    yard.move(raw)
    yard.move(yard.envelope(enveloped, type=string("order.placed")))
    assert {letter["event_type"] for letter in listed()} == {"order.placed"}
    assert redrive().exit_code == 0
    assert yard.cloud.take("orders") == {raw: 1, enveloped: 1}


def test_an_event_that_the_topic_does_not_take_is_not_deleted(yard: Yard) -> None:
    yard.publish(event())
    refusal = {"Id": "0", "SenderFault": True, "Code": "InvalidParameter"}
    answer = {"Successful": [], "Failed": [refusal]}
    answer_with("sns.PublishBatch", lambda _: (type("Ok", (), {"status_code": 200}), answer))
    result = redrive()
    assert result.exit_code == 1
    assert "not sent: InvalidParameter" in result.stderr
    assert yard.left() == 1


def test_a_redrive_of_all_publishes_them_too(yard: Yard) -> None:
    yard.publish(event())
    assert run("dlq", "redrive", "--rate", "1000").exit_code == 0
    assert yard.left() == 0


def test_they_are_purged_once_they_stand_in_a_file(yard: Yard, tmp_path: Path) -> None:
    body = event(LOST)
    yard.publish(body, type=string(LOST))
    file = tmp_path / "unrouted.jsonl"
    assert run("dlq", "purge", "--yes", "--export", file, *OWN).exit_code == 0
    [line] = [json.loads(line) for line in file.read_text().splitlines()]
    assert (line["reason"], line["send"]["MessageBody"]) == (Reason.UNSUBSCRIBED_TYPE, body)
    assert yard.left() == 0
