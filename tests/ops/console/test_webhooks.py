"""The webhooks pages show the captures, and replay them as `once webhooks replay` does."""

import pytest
from starlette.testclient import TestClient

from once.ops.aws.deployment import Deployment
from once.ops.console.jobs import JobPhase
from once.ops.console.server import console_app
from once.ops.console.state import ConsoleState
from tests.ops.cloud import Cloud
from tests.ops.console.conftest import ADDRESS, OWN, confirmed, page_of, planned
from tests.ops.support import refuse
from tests.ops.webhooks.ingress import Webhooks, stripe

REPLAY = "webhooks/replay"
HOSTILE = "<script>alert(1)</script>\u202e\x1b]0;owned\x07"


@pytest.fixture
def webhooks(cloud: Cloud) -> Webhooks:
    """An ingress whose refunds are taken by the orders."""
    cloud.set_types("orders", events=["stripe.charge.refunded"])
    return Webhooks(cloud)


@pytest.fixture
def state(webhooks: Webhooks, state: ConsoleState) -> ConsoleState:
    return state


def test_a_deployment_without_an_ingress_says_how_to_declare_one(cloud: Cloud) -> None:
    state = ConsoleState(Deployment.find())
    with TestClient(console_app(state, ADDRESS), base_url=ADDRESS.url, headers=OWN) as client:
        assert "once.cdk.WebhookFunction" in client.get("webhooks").text
        assert "has no webhook ingress" in client.get("webhooks/one", params={"key": "a"}).text


ABSENT = (
    *("effects/one", "effects/one?key=orders%23event%23/a%23b", f"effects/one?key={'k' * 3000}"),
    *("webhooks/one", "webhooks/one?key=webhooks%23none", "webhooks?endpoint=none"),
    *(f"dead-letters/{owner}/{'0' * 36}" for owner in ("orders", "none")),
    *("dead-letters?consumer=none", "dead-letters/letters?consumer=none", "jobs/none"),
    "message?key=a&consumer=none",
)


def test_a_thing_that_does_not_exist_is_not_found(browser: TestClient, cloud: Cloud) -> None:
    assert {path: browser.get(path).status_code for path in ABSENT} == dict.fromkeys(ABSENT, 404)
    form = {"key": "orders#none", "outcome": "not-done", "why": "seen"}
    assert browser.post("effects/settle", data=form).status_code == 404
    cloud.bury("orders")
    cloud.sqs.receive_message(QueueUrl=cloud.box("orders"), VisibilityTimeout=600)
    answer = browser.get(f"dead-letters/orders/{'1' * 36}")
    assert (answer.status_code, "1 hidden until" in answer.text) == (409, True)  # it may be that
    refuse("dynamodb.BatchGetItem")
    assert browser.get("effects/one?key=orders%23none").status_code == 502


def test_captures_are_listed_and_filtered(browser: TestClient, webhooks: Webhooks) -> None:
    assert "once webhooks send stripe" in browser.get("webhooks").text
    webhooks.receive(stripe("evt_1"))
    webhooks.receive(stripe("evt_2", "charge.updated"))
    webhooks.age = 3 * 86400
    webhooks.receive(stripe("evt_3"))
    for given, ids in (
        ({}, {"evt_1", "evt_2"}),
        ({"standing": "captured"}, {"evt_2"}),
        ({"type": "charge.refunded"}, {"evt_1"}),
        ({"endpoint": "github"}, set()),
        ({"since": "7d", "until": "1d"}, {"evt_3"}),
    ):
        text = browser.get("webhooks", params=given).text
        assert {name for name in ("evt_1", "evt_2", "evt_3") if name in text} == ids
    assert browser.get("webhooks", params={"standing": "odd"}).status_code == 400


def test_a_capture_is_shown_with_its_event(browser: TestClient, webhooks: Webhooks) -> None:
    capture = webhooks.receive(stripe(note=HOSTILE), content_type="application/json")
    text = browser.get("webhooks/one", params={"key": capture.pk}).text
    assert "handed on" in text
    assert "content-type: application/json" in text
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    link = text.split('<p><a href="')[1].split('"')[0]
    story = browser.get(f"http://127.0.0.1:8080{link}").text
    assert "webhooks → dedup table: committed" in story


def test_a_body_that_is_no_text_or_is_gone_is_told(browser: TestClient, webhooks: Webhooks) -> None:
    binary = webhooks.put(b"\xff\x00\x1b", webhook_id=HOSTILE.replace("\x00", ""))
    assert "ff 00 1b" in browser.get("webhooks/one", params={"key": binary.pk}).text
    gone = webhooks.put(b"gone", body=None, body_object="webhooks/gone")
    assert "its body is gone" in browser.get("webhooks/one", params={"key": gone.pk}).text
    text = browser.get("webhooks").text
    assert "<script>alert" not in text
    assert "\x1b" not in text


def test_chosen_captures_are_replayed_to_a_queue(
    browser: TestClient, state: ConsoleState, webhooks: Webhooks
) -> None:
    chosen = [webhooks.receive(stripe(f"evt_{number}")).pk for number in range(3)][1:]
    assert browser.get("webhooks").text.count('name="name"') == 3
    job = planned(browser, state, REPLAY, name=chosen, queue="orders", rate="1000")
    assert job.changes == 2
    assert "would be sent" in browser.get(page_of(state, job)).text
    assert not webhooks.cloud.take("orders")
    assert "<dt>sent</dt><dd>2</dd>" in confirmed(browser, state, job, "asked by finance")
    assert sum(webhooks.cloud.take("orders").values()) == 2
    intent, outcome = webhooks.cloud.logged()
    assert (intent["command"], intent["why"]) == ("webhooks replay", "asked by finance")
    assert outcome["counts"] == {"sent": 2}


def test_a_replay_is_stopped_and_a_failure_is_told(
    browser: TestClient, state: ConsoleState, webhooks: Webhooks
) -> None:
    for number in (1, 2):
        webhooks.receive(stripe(f"evt_{number}"))
    job = planned(browser, state, REPLAY, since="1d", queue="orders")
    browser.post(f"{page_of(state, job)}/stop")
    assert "stopped: 1 certainly sent" in confirmed(browser, state, job)
    refuse("sqs.SendMessage")
    job = planned(browser, state, REPLAY, since="1d", queue="orders")
    assert "AccessDenied" in confirmed(browser, state, job)
    assert job.phase is JobPhase.FAILED
