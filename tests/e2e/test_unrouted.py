"""An event that no consumer takes is kept in the unrouted queue with its reason."""

import json
from typing import Any

import pytest

from once.testing import cloud_event
from tests.e2e.deployment import Deployment, attribute

ASKED = {"DataType": "String", "StringValue": "probe.asked"}
LOST = {"DataType": "String", "StringValue": "order.lost"}
MANY = {f"a{number}": LOST for number in range(10)}


@pytest.fixture(autouse=True)
def _empty(service: Deployment) -> None:
    """Earlier tests publish events that no consumer takes."""
    service.wait_until_swept()
    while service.take("unrouted"):
        pass


def asked(counter: str) -> str:
    return json.dumps(cloud_event("probe.asked", {"counter": counter}))


def publish(service: Deployment, body: str, **attributes: Any) -> None:
    topic = service.parts.ingress_topic_arn
    service.sns.publish(TopicArn=topic, Message=body, MessageAttributes=attributes)


def unrouted(service: Deployment, expected: int) -> dict[str, str]:
    """Wait until all events were swept; take the unrouted ones and return their reasons by body."""
    letters = service.dead_letters("unrouted", expected)
    service.wait_until_swept()
    while more := service.take("unrouted"):
        letters += more
    # An event may be there twice: after a lost answer the function sends it again.
    return {letter["Body"]: attribute(letter, "once-reason") for letter in letters}


def test_s3_what_no_consumer_takes_is_unrouted_and_nothing_else(service: Deployment) -> None:
    bare, unknown, many = asked("bare"), asked("unknown"), asked("many")
    publish(service, bare)
    publish(service, asked("ordinary"), type=ASKED)
    publish(service, unknown, type=LOST)
    publish(service, many, type=ASKED, **MANY)
    publish(service, "order 12, please")
    assert unrouted(service, 4) == {
        bare: "no-type",
        unknown: "unsubscribed-type",
        many: "too-many-attributes",
        "order 12, please": "no-type",
    }
    service.wait_until_empty("probe")
    assert service.get("counters", id="ordinary")["amount"] == "1"
    assert service.get("counters", id="bare") == {}


def test_s3_a_consumers_event_that_no_other_takes_is_unrouted(service: Deployment) -> None:
    service.put("controls", id="published", publishes="yes")
    publish(service, asked("published"), type=ASKED)
    [(body, reason)] = unrouted(service, 1).items()
    assert (json.loads(body)["type"], reason) == ("probe.counted", "unsubscribed-type")
    assert json.loads(body)["source"] == "/once/probe"
