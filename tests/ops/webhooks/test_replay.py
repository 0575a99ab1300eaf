"""`once webhooks replay`: to the queue of a consumer, and to a URL whose address is checked."""

import json
import socket
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from once.events.identity import key_hash
from once.events.outgoing import events_in
from once.names import Record
from once.ops.errors import OpsError
from once.ops.webhooks._http import (
    HttpDestination,
    NotSent,
    Unsendable,
    is_loopback,
    is_public,
    send_request,
)
from once.webhooks.captured_webhook import CaptureStanding
from tests.ops.support import answer_with, refuse, run, stderr_of, stdout_of
from tests.ops.webhooks.ingress import ENDPOINTS, Receiver, Webhooks, stripe

DAY = 86400
REFUNDED = "stripe.charge.refunded"
SINCE = ("webhooks", "replay", "--since", "1d")  # a query for each part of each day


@pytest.fixture
def webhooks(webhooks: Webhooks) -> Webhooks:
    """An ingress whose refunds are taken by the orders."""
    webhooks.cloud.set_types("orders", events=[REFUNDED])
    return webhooks


def published(webhooks: Webhooks) -> list[str]:
    records = webhooks.dynamodb.scan(TableName="physical-dedup")["Items"]
    return [each.body for item in records if Record.OUTBOX in item for each in events_in(item)]


def messages(webhooks: Webhooks) -> list[Any]:
    answer = webhooks.cloud.sqs.receive_message(
        QueueUrl=webhooks.cloud.queue("orders"),
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
    )
    return list(answer.get("Messages", []))


def outcomes(*arguments: object, code: int = 0) -> list[str]:
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.output
    return [one["outcome"] for one in json.loads(result.stdout)["webhooks"]]


def test_a_queue_receives_the_event_as_it_was_published(webhooks: Webhooks) -> None:
    webhooks.receive(stripe(note="ä"), content_type="application/json")
    to = ("webhooks", "replay", "evt_1", "--to-queue", "orders")
    assert "evt_1  would be sent" in stdout_of(*to, "--dry-run")
    assert messages(webhooks) == webhooks.cloud.logged() == []
    assert "sent 1 of 1 webhook" in stdout_of(*to, "--yes")
    [message] = messages(webhooks)
    assert [message["Body"]] == published(webhooks)
    attributes = {name: one["StringValue"] for name, one in message["MessageAttributes"].items()}
    assert attributes.pop("replay").startswith("20")
    assert attributes == {"type": REFUNDED}
    intent, outcome = webhooks.cloud.logged()
    assert (outcome["counts"], outcome["message_ids"]) == ({"sent": 1}, [message["MessageId"]])
    assert "evt_1" not in json.dumps(intent)


def test_a_webhook_that_was_captured_only_is_sent_once_its_type_is_handed_on(
    webhooks: Webhooks,
) -> None:
    webhooks.receive(stripe(kind="charge.captured"))
    replay = (*SINCE, "--to-queue", "orders", "--yes")
    assert "does not hand its type on" in stderr_of(*replay)
    known = replace(ENDPOINTS[0], types=("charge.captured",))
    webhooks.cloud.service["WebhookEndpoints"] = json.dumps([known.to_builtins()])
    assert "takes no 'stripe.charge.captured'" in stderr_of(*replay)
    webhooks.cloud.set_types("orders", events=["stripe.charge.captured"])
    assert outcomes(*replay) == outcomes(*replay) == ["sent"]
    first, second = (json.loads(message["Body"]) for message in messages(webhooks))
    assert first == second
    assert (first["webhookid"], first["webhookendpoint"]) == ("evt_1", "stripe")


def test_what_has_no_event_or_may_be_forgotten_stays(webhooks: Webhooks) -> None:
    replay = ("webhooks", "replay", "--since", "2d", "--to-queue", "orders", "--yes")
    webhooks.age = 1.5 * DAY
    webhooks.receive(stripe("evt_1"))
    webhooks.age = 100
    webhooks.receive(b"no JSON", "stripe")
    webhooks.age = 50
    webhooks.receive(stripe("evt_1", amount=2))
    assert outcomes(*replay, code=1) == ["sent", "not-sent", "not-sent"]
    conflicts = ("--standing", CaptureStanding.CONFLICT)
    assert outcomes(*replay, *conflicts) == ["sent"]
    webhooks.dynamodb.update_item(
        TableName="physical-dedup",
        Key={"pk": {"S": "webhooks#event#/webhooks/stripe#evt_1"}},
        UpdateExpression="SET expires_at = :soon",
        ExpressionAttributeValues={":soon": {"N": str(int(webhooks.clock()) + 7 * DAY)}},
    )
    named = ("webhooks", "replay", "webhooks#event#/webhooks/stripe#evt_1", "--to-queue", "orders")
    assert "processed and forgotten it" in stderr_of(*named, "--yes")
    assert outcomes(*named, "--yes", "--unsafe") == ["sent"]


def test_a_genuine_webhook_that_is_in_conflict_with_a_forged_type_gets_its_event(
    webhooks: Webhooks,
) -> None:
    webhooks.cloud.set_types("orders", events=["github.push"])
    webhooks.receive(b'{"n": 1}', "github", webhook_id="g-1", x_github_event="issues")
    genuine = webhooks.receive(b'{"n": 1}', "github", webhook_id="g-1", x_github_event="push")
    replay = (*SINCE, "--to-queue", "orders", "--yes", "--type", "push")
    assert "with another type, which is not signed" in stderr_of(*replay)
    named = ("webhooks", "replay", key_hash(genuine.pk)[:12], "--to-queue", "orders", "--yes")
    assert outcomes(*named) == outcomes(*named) == ["sent"]
    first, second = (json.loads(message["Body"]) for message in messages(webhooks))
    assert (first["type"], first["data"]) == ("github.push", {"n": 1})
    assert first == second


def test_the_queue_of_a_fifo_consumer_has_the_group_of_the_data(webhooks: Webhooks) -> None:
    webhooks.cloud.make_fifo("orders", "id", external=[])
    webhooks.cloud.set_types("orders", events=[REFUNDED], grouped_by="id")
    webhooks.receive(stripe())
    for _ in range(2):  # SQS drops what has the same deduplication id
        stdout_of(*SINCE, "--to-queue", "orders", "--yes")
    answer = webhooks.cloud.sqs.receive_message(
        QueueUrl=webhooks.cloud.queue("orders"), MaxNumberOfMessages=10, AttributeNames=["All"]
    )
    assert [each["Attributes"]["MessageGroupId"] for each in answer["Messages"]] == ["evt_1"] * 2


def test_a_url_receives_body_and_headers_as_they_were(webhooks: Webhooks, server: Receiver) -> None:
    body = b'{ "id":"evt_1",  "type": "other", "text": "\xc3\xa4" }\n'
    capture = webhooks.receive(body, content_type="application/json; charset=utf-8")
    url = f"{server.url}/hook?a=b%20c"
    to = ("webhooks", "replay", "evt_1", "--to-url", url, "--yes")
    assert "which is not a public address: give --allow-private" in stderr_of(*to)
    assert server.requests == []
    assert "sent 1 of 1 webhook" in stdout_of(*to, "--allow-private")
    [request] = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook?a=b%20c", body)
    assert request.headers.pop("once-replay").startswith("20")
    assert request.headers.items() >= capture.headers.items()
    assert "a=b" not in json.dumps(webhooks.cloud.logged())


def test_webhooks_are_sent_the_oldest_first_and_each_answer_counts(
    webhooks: Webhooks, server: Receiver
) -> None:
    for number in range(3):
        webhooks.age = 300 - number
        webhooks.receive(stripe(f"evt_{number}"))
    answers = {"evt_0": 204, "evt_1": 307, "evt_2": 500}
    server.status = lambda request: answers[json.loads(request.body)["id"]]
    server.location = f"{server.url}/elsewhere"
    replay = (*SINCE, "--to-url", server.url, "--allow-private", "--yes")
    assert outcomes(*replay, code=1) == ["sent", "refused", "refused"]
    assert [json.loads(each.body)["id"] for each in server.requests] == [*answers]
    server.requests.clear()
    server.status = lambda request: 0
    error = stderr_of(*replay)
    assert "3 webhooks in a row could not be sent" in error
    assert outcomes(*replay, "--limit", 3, code=1) == ["perhaps-sent"] * 3


def test_ctrl_c_says_what_is_certain(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        webhooks.age = 300 - number
        webhooks.receive(stripe(f"evt_{number}"))
    sent: list[int] = []

    def send(*request: Any) -> int:
        sent.append(1)
        if len(sent) == 2:
            raise KeyboardInterrupt
        return 200

    monkeypatch.setattr("once.ops.webhooks.replay.send_request", send)
    replay = (*SINCE, "--to-url", "http://127.0.0.1:1/", "--allow-private", "--yes")
    error = stderr_of(*replay, code=130)
    assert "1 certainly sent; in doubt: 1; not tried: 1" in error
    assert "perhaps sent: stripe charge.refunded evt_1" in error
    assert webhooks.cloud.logged()[-1]["outcome"] == "stopped"


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "lost"])
def test_a_queue_that_takes_nothing_ends_the_replay(webhooks: Webhooks, *, lost: bool) -> None:
    def lose(params: Any) -> Any:
        raise ReadTimeoutError(endpoint_url="sqs")

    for number in range(4):
        webhooks.receive(stripe(f"evt_{number}"))
    if lost:
        answer_with("sqs.SendMessage", lose)
    else:
        refuse("sqs.SendMessage")
    expected = "perhaps-sent" if lost else "not-sent"
    assert outcomes(*SINCE, "--to-queue", "orders", "--yes", code=1) == [expected] * 3


NOT_POSSIBLE: dict[tuple[str, ...], tuple[int, str]] = {
    ("--since", "1d"): (2, "give --to-queue CONSUMER or --to-url URL"),
    ("--since", "1d", "--to-queue", "orders", "--to-url", "http://x/"): (2, "and not both"),
    ("--to-queue", "orders"): (2, "name webhooks by ID, or give --since"),
    ("--since", "1d", "--to-queue", "order"): (1, "has no consumer 'order'"),
    ("--since", "1d", "--to-queue", "orders", "--limit", "1"): (1, "narrow the choice"),
    ("evt_9", "--to-queue", "orders"): (1, "no webhook 'evt_9'"),
    ("evt_1", "--to-queue", "orders", "--allow-private"): (2, "is for --to-url"),
    ("evt_1", "--to-url", "http://x/", "--unsafe"): (2, "is for --to-queue"),
    ("evt_1", "--to-url", "ftp://x/"): (1, "give a URL such as"),
}


def test_a_replay_that_cannot_be_is_refused(webhooks: Webhooks) -> None:
    webhooks.receive(stripe("evt_1"))
    webhooks.receive(stripe("evt_2"))
    for arguments, (code, text) in NOT_POSSIBLE.items():
        assert text in stderr_of("webhooks", "replay", *arguments, "--yes", code=code)
    assert webhooks.cloud.logged() == []


# Addresses that a replay may be sent to.


PUBLIC = ("93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822")
OTHERS = (
    *("127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
    *("100.64.0.1", "169.254.169.254", "fe80::1", "fd00:ec2::254", "224.0.0.1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:93.184.216.34", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::", "240.0.0.1", "255.255.255.255"),
    *("192.0.2.1", "198.18.0.1", "fec0::1", "64:ff9b:1::a00:1", "::127.0.0.1", "2001:0:a00:1::"),
)


def test_public_addresses_and_those_of_this_machine_are_told_apart() -> None:
    every = [*PUBLIC, *OTHERS]
    assert [each for each in every if is_public(ip_address(each))] == [*PUBLIC]
    here = [each for each in every if is_loopback(ip_address(each))]
    assert here == ["127.0.0.1", "127.9.9.9", "::1"]


def names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let the name server give these answers, one after the other; return the names asked for."""
    asked: list[str] = []

    def answer(host: str, port: int, **options: Any) -> Any:
        asked.append(host)
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


def destination(url: str) -> HttpDestination:
    return HttpDestination.of(url, "--to-url", is_public, "which is not public")


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://localhost/"),
        *("http://2130706433/", "http://0x7f000001/", "http://127.1/", "http://0/"),
        *("http://[fe80::1%25lo]/", "http://169.254.169.254/latest/meta-data/"),
    ],
)
def test_each_spelling_of_a_private_address_is_refused(url: str) -> None:
    with pytest.raises(OpsError, match=r"which is not public|has no address"):
        destination(url)


def test_a_name_is_refused_if_one_of_its_addresses_is_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names(monkeypatch, [PUBLIC[0], "10.0.0.1"])
    with pytest.raises(OpsError, match=r"'example\.com' is 10\.0\.0\.1, which is not public"):
        destination("https://example.com/")


def test_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = names(monkeypatch, [PUBLIC[0]], ["127.0.0.1"])
    tried: list[Any] = []

    def connect(address: Any, timeout: float) -> Any:
        tried.append(address)
        raise TimeoutError("no answer")

    monkeypatch.setattr(socket, "create_connection", connect)
    found = destination("http://example.com:8080/hook")
    with pytest.raises(NotSent, match=r"no connection to example\.com"):
        send_request(found, "POST", {}, b"")
    assert tried == [(PUBLIC[0], 8080)]
    assert asked == ["example.com"]


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com/", "file:///etc/passwd", "example.com", "http:///x", "http://a b/"),
        *("http://user:pass@example.com/", "http://example.com:99999/", "http://x\r\ny/"),
        *("http://[::1", "http://ex\u202eample.com/"),
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(OpsError, match=r"--to-url"):
        destination(url)


def test_a_header_adds_no_line(server: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    found = HttpDestination.of(server.url, "--to", is_loopback, "")
    with pytest.raises(Unsendable):
        send_request(found, "POST", {"x-a": "1\r\nx-b: 2"}, b"")
    assert server.requests == []
    headers = {"x-a": "\u20ac", "Host": "evil", "Content-Length": "9", "transfer-encoding": "x"}
    assert send_request(found, "POST", headers, b"body") == 200
    [request] = server.requests
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert (request.headers["content-length"], request.body) == ("4", b"body")
    assert "transfer-encoding" not in request.headers
