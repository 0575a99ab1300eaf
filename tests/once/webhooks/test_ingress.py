"""The ingress: its answers, what it keeps, its counts, and faults of AWS."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from time import time
from typing import Any

import boto3
import pytest

from once.events.outgoing import events_in
from once.names import Metric
from once.runtime.metrics_log import MetricsLog
from once.runtime.sdk import SDK
from once.testing.events import FakeContext
from once.testing.faults import Fault, answer_lost, cancelled, inject, never_sent, refused
from once.webhooks import ingress
from once.webhooks.captured_webhook import CaptureStanding, Conflict
from once.webhooks.endpoint import Endpoint
from once.webhooks.signature import REFRESH_SECONDS
from tests.once.webhooks.service import (
    ENDPOINTS,
    NOW,
    SECRET,
    Service,
    github_request,
    request,
    slack_request,
    stripe_body,
    stripe_request,
)

FORM = {"content-type": "application/x-www-form-urlencoded"}
HANDSHAKE = json.dumps({"type": "url_verification", "challenge": "c-1"}).encode()
PUSH = b'{"ref": "main"}'


@pytest.fixture
def service() -> Service:
    return Service()


TAKEN: dict[str, tuple[dict[str, Any], CaptureStanding]] = {
    "of a type that is handed on": (stripe_request(stripe_body()), CaptureStanding.HANDED_ON),
    "with its id in a header": (github_request(PUSH), CaptureStanding.HANDED_ON),
    "a form": (github_request(b"payload=%7B%22a%22%3A1%7D", **FORM), CaptureStanding.HANDED_ON),
    "of another type": (stripe_request(stripe_body(type="payout.paid")), CaptureStanding.CAPTURED),
    "without a type": (stripe_request(b'{"id": "evt_1"}'), CaptureStanding.CAPTURED),
    "without id and type": (stripe_request(b"{}"), CaptureStanding.CAPTURED),
    "no object": (stripe_request(b"[1]"), CaptureStanding.CAPTURED),
    "no JSON": (stripe_request(b"{"), CaptureStanding.UNREADABLE),
    "not UTF-8": (stripe_request(b"\xff\x00"), CaptureStanding.UNREADABLE),
    "empty": (stripe_request(b""), CaptureStanding.UNREADABLE),
    "a key twice": (stripe_request(b'{"id": "a", "id": "b"}'), CaptureStanding.UNREADABLE),
    "too deep": (github_request(b"[" * 65 + b"]" * 65), CaptureStanding.UNREADABLE),
    "a number that no consumer reads": (
        github_request(b'{"a": 1e400}'),
        CaptureStanding.UNREADABLE,
    ),
}
STANDINGS = {
    CaptureStanding.HANDED_ON: {Metric.WEBHOOKS_TAKEN},
    CaptureStanding.CAPTURED: {Metric.WEBHOOKS_TAKEN},
    CaptureStanding.UNREADABLE: {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOKS_UNREADABLE},
    CaptureStanding.UNPUBLISHABLE: {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOKS_UNPUBLISHABLE},
    CaptureStanding.CONFLICT: {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOK_CONFLICTS},
}


@pytest.mark.parametrize(("event", "standing"), TAKEN.values(), ids=TAKEN)
def test_a_webhook_is_captured_once(
    service: Service, event: dict[str, Any], standing: CaptureStanding
) -> None:
    assert [service.post(event), service.post(event)] == [200, 200]
    [capture] = service.captures()
    assert capture.standing is standing
    assert len(service.events()) == (standing is CaptureStanding.HANDED_ON)
    assert service.counted() == [STANDINGS[standing], {Metric.WEBHOOK_DUPLICATES}]


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "no endpoint": (request("/nobody", b"{}", {}), 404, Metric.WEBHOOKS_MISADDRESSED),
    "no path": (request("/", b"{}", {}), 404, Metric.WEBHOOKS_MISADDRESSED),
    "GET": (request("/stripe", b"", {}, method="GET"), 405, Metric.WEBHOOKS_MISADDRESSED),
    "too large": (request("/stripe", b"x" * 131_073, {}), 413, Metric.WEBHOOKS_TOO_LARGE),
    "too large as text": (
        request("/stripe", b"", {}) | {"body": "é" * 65_537, "isBase64Encoded": False},
        *(413, Metric.WEBHOOKS_TOO_LARGE),
    ),
    "too large, before it is decoded": (
        request("/stripe", b"", {}) | {"body": "!" * 200_000},
        *(413, Metric.WEBHOOKS_TOO_LARGE),
    ),
    "over what an item holds": (
        github_request(b"x" * 262_145),
        *(413, Metric.WEBHOOKS_TOO_LARGE),
    ),
    "not signed": (request("/stripe", b"{}", {}), 401, Metric.WEBHOOKS_FORGED),
    "forged": (stripe_request(stripe_body(), secret="no"), 401, Metric.WEBHOOKS_FORGED),
    "old": (stripe_request(stripe_body(), at=NOW - 301), 401, Metric.WEBHOOKS_STALE),
    "of the future": (stripe_request(stripe_body(), at=NOW + 301), 401, Metric.WEBHOOKS_STALE),
    "forged handshake": (request("/slack", HANDSHAKE, {}), 401, Metric.WEBHOOKS_FORGED),
    "not base64": (stripe_request(b"") | {"body": "!"}, 503, Metric.WEBHOOKS_FAILED),
    "no request": ({"path": "/stripe", "httpMethod": "POST"}, 503, Metric.WEBHOOKS_FAILED),
}


@pytest.mark.parametrize(("event", "status", "metric"), REFUSED.values(), ids=REFUSED)
def test_a_refused_request_leaves_nothing_and_is_counted(
    service: Service, event: dict[str, Any], status: int, metric: str
) -> None:
    answer = service.ingress.handle(event, FakeContext())
    assert (answer["statusCode"], answer["body"]) == (status, "")
    assert answer["headers"].get("allow") == ("POST" if status == 405 else None)
    assert [*service.captures(), *service.events()] == []
    assert service.counted() == [{metric}]


def test_a_body_of_the_largest_size_is_taken(service: Service) -> None:
    body = stripe_body(note="")
    full = body.replace(b'""', b'"%s"' % (b"x" * (131_072 - len(body))))
    assert len(full) == 131_072
    assert service.post(stripe_request(full)) == 200


def test_a_handshake_is_answered_and_not_kept(service: Service) -> None:
    answer = service.ingress.handle(slack_request(HANDSHAKE), FakeContext())
    assert (answer["statusCode"], answer["body"]) == (200, "c-1")
    assert service.captures() == []
    assert service.counted() == [{Metric.WEBHOOK_HANDSHAKES}]


def test_a_line_has_endpoint_standing_and_hash_of_the_key(service: Service) -> None:
    service.post(stripe_request(stripe_body()))
    service.post(stripe_request(stripe_body()))
    service.post(request("/nobody", b"", {}))
    taken, duplicate, unknown = service.properties()
    assert (taken["endpoint"], taken["standing"]) == ("stripe", "handed-on")
    assert taken["key_hash"] == duplicate["key_hash"]
    assert "standing" not in duplicate
    assert taken[Metric.WEBHOOK_MS] == [0]
    assert unknown.keys() & {"endpoint", "key_hash", Metric.WEBHOOK_MS} == set()


def test_the_latency_is_in_milliseconds_from_the_first_to_the_last_step(service: Service) -> None:
    with inject(service.sender, "TransactWriteItems", cancelled("TransactionConflict")):
        assert service.post(stripe_request(stripe_body())) == 200
    [line] = service.properties()
    assert line[Metric.WEBHOOK_MS] == [round((service.now - NOW) * 1000, 3)]
    assert service.paused == 1


def test_a_secret_that_was_rotated_a_moment_ago_verifies_a_webhook(service: Service) -> None:
    assert service.post(stripe_request(stripe_body("evt_0"))) == 200
    service.secretsmanager.put_secret_value(SecretId="stripe", SecretString="new")
    service.now += REFRESH_SECONDS
    new = stripe_request(stripe_body(), at=service.now, secret="new")
    assert service.post(new) == 200
    forged = stripe_request(stripe_body("evt_2"), at=service.now, secret="other")
    assert service.post(forged) == 401


@pytest.mark.parametrize("bucket", [None, "claims"])
def test_a_deployed_ingress_is_made_of_its_settings(bucket: str | None) -> None:
    service = Service(claim_bucket=bucket)
    made = ingress.Ingress.of(service.settings, region="us-east-1")
    assert made.secrets.of("stripe").current == (SECRET,)
    assert made.logger.service == "webhooks"
    clients = [made.dynamodb, made.secrets._client, *filter(None, [made.s3])]
    services = ["dynamodb", "secretsmanager", *(["s3"] if bucket else [])]
    assert [each.meta.service_model.service_name for each in clients] == services
    assert {each.meta.region_name for each in clients} == {"us-east-1"}
    expected: Any = SDK
    assert {each.meta.config.read_timeout for each in clients} == {expected.read_timeout}
    taken = made.handle(stripe_request(stripe_body(), at=time()), FakeContext())
    assert taken["statusCode"] == 200
    [capture] = service.captures()
    assert abs(capture.received_at / 1000 - time()) < 60


def test_a_webhook_after_the_window_is_new(service: Service) -> None:
    assert service.post(stripe_request(stripe_body())) == 200
    service.now += 46 * 86400
    assert service.post(stripe_request(stripe_body(), at=service.now)) == 200
    assert service.counted() == [{Metric.WEBHOOKS_TAKEN}] * 2
    [capture] = service.captures()
    assert capture.received_at == int(service.now * 1000)


# Webhooks that cannot be handed on: captured once, with a standing of their own.


GROUPED: dict[str, Any] = {"groups": {"stripe.charge.refunded": "charge"}}
WIDE = stripe_body(note="?").replace(b"?", "é".encode() * 60_000)
"""In the event, each character takes six bytes."""

UNPUBLISHABLE: dict[str, tuple[dict[str, Any], bytes]] = {
    "over the limit of the topic": ({}, WIDE),
    "without its message group": (GROUPED, stripe_body()),
    "with an object as its message group": (GROUPED, stripe_body(charge={})),
    "of a type that was not deployed": ({"publishes": ()}, stripe_body()),
    "as deep as JSON may be": ({}, stripe_body(a=json.loads("[" * 63 + "]" * 63))),
}


@pytest.mark.parametrize(("settings", "body"), UNPUBLISHABLE.values(), ids=UNPUBLISHABLE)
def test_a_webhook_that_cannot_be_published_is_captured_once(
    settings: dict[str, Any], body: bytes
) -> None:
    service = Service(**settings)
    assert [service.post(stripe_request(body)) for _ in range(2)] == [200, 200]
    [capture] = service.captures()
    assert (capture.standing, capture.event_type) == (CaptureStanding.UNPUBLISHABLE, None)
    assert capture.body == body
    assert service.events() == []
    taken = {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOKS_UNPUBLISHABLE}
    assert service.counted() == [taken, {Metric.WEBHOOK_DUPLICATES}]


def test_texts_of_any_length_are_captured() -> None:
    service = Service()
    body = stripe_body(type="t" * 120_000)
    assert service.post(stripe_request(body) | {"rawQueryString": "q" * 500_000}) == 200
    [capture] = service.captures()
    assert capture.standing is CaptureStanding.CAPTURED
    assert len(capture.webhook_type) == 1024
    assert len(capture.path) == 8192


def test_a_conflict_is_captured_once_for_each_content() -> None:
    service = Service()
    first, second, third = (stripe_body(amount=n) for n in range(3))
    again = stripe_body(amount=1, pending_webhooks=7)  # a field that may differ
    for body in (first, second, second, again, third, first):
        assert service.post(stripe_request(body)) == 200
    conflict = {Metric.WEBHOOKS_TAKEN, Metric.WEBHOOK_CONFLICTS}
    duplicate = {Metric.WEBHOOK_DUPLICATES}
    assert service.counted() == [
        *({Metric.WEBHOOKS_TAKEN}, conflict, duplicate, duplicate, conflict, duplicate),
    ]
    found = {each.body: each.standing for each in service.captures()}
    assert found == {
        first: CaptureStanding.HANDED_ON,
        second: CaptureStanding.CONFLICT,
        third: CaptureStanding.CONFLICT,
    }
    [of_first] = {(c.conflict, c.conflicts_with) for c in service.captures() if c.conflict}
    assert of_first == (Conflict.CONTENT, "webhooks#event#/webhooks/stripe#evt_1")
    assert len(service.events()) == 1


@pytest.mark.parametrize("standing", [CaptureStanding.UNPUBLISHABLE, CaptureStanding.CAPTURED])
def test_a_conflict_with_a_webhook_that_was_not_handed_on(standing: CaptureStanding) -> None:
    kind = "charge.refunded" if standing is CaptureStanding.UNPUBLISHABLE else "payout.paid"
    service = Service(**GROUPED)
    for amount in (1, 2, 2):
        assert service.post(stripe_request(stripe_body(type=kind, amount=amount))) == 200
    assert {each.standing for each in service.captures()} == {CaptureStanding.CONFLICT, standing}
    assert service.counted()[2] == {Metric.WEBHOOK_DUPLICATES}


def test_a_conflict_under_the_longest_key_is_captured() -> None:
    service = Service()
    webhook_id = "%" * 512  # escaped, each takes three bytes
    for amount in (1, 2):
        assert service.post(stripe_request(stripe_body(webhook_id, amount=amount))) == 200
    assert max(len(each.pk) for each in service.captures()) > 1536
    standings = sorted(each.standing for each in service.captures())
    assert standings == [CaptureStanding.CONFLICT, CaptureStanding.HANDED_ON]


def test_a_record_that_cannot_be_read_counts_as_a_conflict() -> None:
    service = Service()
    pk = "webhooks#event#/webhooks/stripe#evt_1"
    service.dynamodb.put_item(TableName="dedup", Item={"pk": {"S": pk}})
    assert [service.post(stripe_request(stripe_body())) for _ in range(2)] == [200, 200]
    [capture] = service.captures()
    assert capture.standing is CaptureStanding.CONFLICT
    assert capture.pk != pk


def test_two_endpoints_never_share_a_webhook() -> None:
    twin = Endpoint("twin", ENDPOINTS[0].profile, types=("charge.refunded",))
    service = Service((*ENDPOINTS, twin))
    event = stripe_request(stripe_body())
    assert [service.post(event), service.post(event | {"rawPath": "/twin"})] == [200, 200]
    assert sorted(each.endpoint for each in service.captures()) == ["stripe", "twin"]
    assert len({event.id for event in service.events()}) == 2


# The ingress: capture, dedup record and event in one transaction, and the answer after it.


def test_an_event_of_an_ordered_type_is_in_the_sequence_of_its_group() -> None:
    kind = "stripe.charge.refunded"
    service = Service(groups={kind: "charge"}, ordered_types=(kind,))
    for number in range(2):
        assert service.post(stripe_request(stripe_body(f"evt_{number}", charge="ch_1"))) == 200
    items = service.dynamodb.scan(TableName="dedup")["Items"]
    [sequence] = (item for item in items if item["pk"]["S"] == "webhooks#sequence#ch_1")
    assert [event.type for event in events_in(sequence)] == [kind]
    assert len(service.captures()) == 2


# Faults of AWS: success only for a durable webhook, and no part of a request in a log.


COMMIT, LOOK_UP = "TransactWriteItems", "BatchGetItem"
THROTTLED = refused("ThrottlingException")
CONTENDED = cancelled("TransactionConflict", "None")
CAPTURE_CONTENDED = cancelled("None", "TransactionConflict")
UNANSWERED = refused("InternalServerError", status=500)
IN_PROGRESS = refused("TransactionInProgressException")
DENIED = refused("AccessDeniedException")
NO_TABLE = refused("ResourceNotFoundException")
ALWAYS = 1000


@pytest.fixture
def faults() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


PASSING: dict[str, tuple[list[Fault | None], list[Fault | None]]] = {
    "throttled": ([THROTTLED], []),
    "contended": ([CONTENDED, CONTENDED], []),
    "contended on the capture": ([CAPTURE_CONTENDED], []),
    "in progress": ([IN_PROGRESS], []),
    "cancelled by no cause": ([cancelled("None", "None")], []),
    "capacity of a partition": ([cancelled("None", "ThrottlingError")], []),
    "never sent": ([never_sent()], []),
    "server error": ([UNANSWERED], []),
    "answer lost after the commit": ([answer_lost()], []),
    "answer lost, and then contended": ([answer_lost()], [never_sent()]),
    "answer lost, and the look-up throttled": ([answer_lost()], [THROTTLED]),
}


@pytest.mark.parametrize(("commits", "look_ups"), PASSING.values(), ids=PASSING)
def test_a_passing_fault_is_tried_again(
    service: Service,
    faults: ExitStack,
    commits: list[Fault | None],
    look_ups: list[Fault | None],
) -> None:
    left = faults.enter_context(inject(service.sender, COMMIT, *commits))
    unread = faults.enter_context(inject(service.sender, LOOK_UP, *look_ups))
    assert service.post(stripe_request(stripe_body())) == 200
    assert (left, unread) == ([], [])
    assert len(service.captures()) == len(service.events()) == 1
    assert service.counted() == [{Metric.WEBHOOKS_TAKEN}]


REFUSED_COMMIT = "RequestRefused: DynamoDB refused the commit: "
LASTING: dict[str, tuple[Fault, str]] = {
    "throttled": (
        THROTTLED,
        "Throttled: DynamoDB throttled the requests for lack of capacity, until the time was up",
    ),
    "contended": (
        CONTENDED,
        "Contention: others kept changing the same items, until the time was up",
    ),
    "in progress": (IN_PROGRESS, "OutcomeUnknown: .*"),
    "never sent": (never_sent(), "OutcomeUnknown: .*"),
    "no rights": (DENIED, f"{REFUSED_COMMIT}AccessDeniedException"),
    "no table": (NO_TABLE, f"{REFUSED_COMMIT}ResourceNotFoundException"),
    "refused for good": (cancelled("None", "ValidationError"), "InvalidWrite"),
}


@pytest.mark.parametrize(("fault", "error"), LASTING.values(), ids=LASTING)
def test_a_lasting_fault_is_answered_with_503(
    service: Service, faults: ExitStack, fault: Fault, error: str
) -> None:
    faults.enter_context(inject(service.sender, COMMIT, *[fault] * ALWAYS))
    assert service.post(stripe_request(stripe_body())) == 503
    assert [*service.captures(), *service.events()] == []
    assert service.counted() == [{Metric.WEBHOOKS_FAILED}]
    line = json.loads(service.log.getvalue())
    assert line["message"] == "webhook not captured"
    assert re.fullmatch(error, line["error"])


def test_a_commit_without_an_answer_and_without_a_look_up_is_no_success(
    service: Service, faults: ExitStack
) -> None:
    with inject(service.sender, COMMIT, *[answer_lost()] * ALWAYS):
        faults.enter_context(inject(service.sender, LOOK_UP, *[never_sent()] * ALWAYS))
        assert service.post(stripe_request(stripe_body())) == 503
    assert len(service.captures()) == 1  # the commit succeeded; its answer was lost
    assert service.post(stripe_request(stripe_body())) == 200
    assert service.counted() == [{Metric.WEBHOOKS_FAILED}, {Metric.WEBHOOK_DUPLICATES}]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize(
    ("event", "remaining_ms", "seconds", "pauses"),
    [
        (stripe_request(stripe_body()), 60_000, 9.5, 13),
        (slack_request(b'{"event_id": "Ev1"}'), 60_000, 2.5, 6),
        (stripe_request(stripe_body()), 7_000, 2, 6),
        (stripe_request(stripe_body()), 4_000, 0, 0),
    ],
    ids=["of the provider", "of a provider in a hurry", "of the function", "none"],
)
def test_attempts_end_with_the_time(
    service: Service,
    faults: ExitStack,
    event: dict[str, Any],
    remaining_ms: int,
    seconds: float,
    pauses: int,
) -> None:
    began = service.now
    left = faults.enter_context(inject(service.sender, COMMIT, *[THROTTLED] * ALWAYS))

    class Ticking:
        def get_remaining_time_in_millis(self) -> int:
            return remaining_ms - int((service.now - began) * 1000)

    assert service.ingress.handle(event, Ticking())["statusCode"] == 503
    assert seconds - 1 <= service.now - began <= seconds
    assert len(left) == ALWAYS - 1 - service.paused  # one attempt more than pauses
    assert service.paused == pauses  # of 25 ms, doubled up to a second


def test_a_webhook_in_two_requests_at_once_is_one(service: Service) -> None:
    answers = []

    def meanwhile(**_: Any) -> None:
        service.sender.meta.events.unregister(hook, meanwhile)
        answers.append(service.post(stripe_request(stripe_body())))

    hook = f"before-call.dynamodb.{COMMIT}"
    service.sender.meta.events.register(hook, meanwhile)
    answers.append(service.post(stripe_request(stripe_body())))
    assert answers == [200, 200]
    assert len(service.captures()) == len(service.events()) == 1
    assert service.counted() == [{Metric.WEBHOOKS_TAKEN}, {Metric.WEBHOOK_DUPLICATES}]


@pytest.mark.parametrize("fault", [never_sent(), refused("AccessDeniedException")])
def test_without_secrets_nothing_is_verified(service: Service, fault: Fault) -> None:
    with inject(service.secretsmanager, "GetSecretValue", *[fault] * ALWAYS):
        assert service.post(stripe_request(stripe_body())) == 503
    assert service.counted() == [{Metric.WEBHOOKS_FAILED}]
    service.now += REFRESH_SECONDS
    assert service.post(stripe_request(stripe_body())) == 200


LARGE = b'{"ref": "%s"}' % (b"x" * 300_000)


@pytest.fixture
def claiming() -> Service:
    """An ingress that keeps large bodies in S3."""
    boto3.client("s3", "us-east-1").create_bucket(Bucket="claims")
    return Service(claim_bucket="claims", max_body_bytes=4 * 1024 * 1024)


@pytest.mark.parametrize("fault", [never_sent(), refused("SlowDown", status=503)])
def test_nothing_commits_before_its_objects_are_stored(claiming: Service, fault: Fault) -> None:
    with inject(claiming.s3, "PutObject", *[fault] * ALWAYS):
        assert claiming.post(github_request(LARGE)) == 503
    assert claiming.captures() == []
    assert claiming.post(github_request(LARGE)) == 200
    assert claiming.counted() == [{Metric.WEBHOOKS_FAILED}, {Metric.WEBHOOKS_TAKEN}]


def test_a_duplicate_stores_nothing(claiming: Service) -> None:
    assert claiming.post(github_request(LARGE)) == 200
    with inject(claiming.s3, "PutObject", *[never_sent()] * ALWAYS) as left:
        assert claiming.post(github_request(LARGE)) == 200
    assert len(left) == ALWAYS
    assert claiming.counted()[1] == {Metric.WEBHOOK_DUPLICATES}


@pytest.mark.parametrize("fault", [never_sent(), THROTTLED])
def test_a_webhook_is_taken_although_it_cannot_be_looked_up(
    claiming: Service, fault: Fault
) -> None:
    with inject(claiming.sender, LOOK_UP, fault) as left:
        assert claiming.post(github_request(LARGE)) == 200
    assert left == []
    assert claiming.counted() == [{Metric.WEBHOOKS_TAKEN}]


# Log and metrics of the ingress contain no part of a request, and no secret.


MARK = "S3CRET"
HEADERS = {"user-agent": MARK, "cookie": MARK, "authorization": MARK}


def marked(event: dict[str, Any]) -> dict[str, Any]:
    """Put the mark into every part of a request that its sender chooses."""
    event["headers"] |= HEADERS
    return event | {"rawQueryString": f"key={MARK}", "cookies": [MARK]}


BODY = stripe_body(MARK, note=MARK)
EVENTS: dict[str, dict[str, Any]] = {
    "handed on": stripe_request(BODY),
    "id in a header": github_request(json.dumps({MARK: MARK}).encode(), delivery=MARK),
    "of another type": stripe_request(stripe_body(MARK, type=MARK)),
    "conflict": stripe_request(stripe_body(MARK, note="other")),
    "unreadable": stripe_request(MARK.encode()),
    "a key twice": stripe_request(f'{{"{MARK}": 1, "{MARK}": 2}}'.encode()),
    "key too long": stripe_request(stripe_body(MARK * 1000)),
    "forged": stripe_request(BODY, secret=MARK),
    "forged, with another signature": request("/stripe", BODY, {"stripe-signature": MARK}),
    "stale": stripe_request(BODY, at=1.0),
    "too large": stripe_request(MARK.encode() * 50_000),
    "handshake": slack_request(
        json.dumps({"type": "url_verification", "challenge": MARK}).encode()
    ),
    "no endpoint": request(f"/{MARK}", BODY, {}),
    "other method": request("/stripe", BODY, {}, method=MARK),
    "not base64": stripe_request(BODY) | {"body": f"!{MARK}"},
    "no payload 2.0": {"path": MARK, "body": MARK},
    "odd header": stripe_request(BODY) | {"headers": {MARK: [MARK]}},
}


def check(service: Service) -> None:
    printed = service.log.getvalue() + "".join(service.lines)
    assert len(service.lines) > 0
    assert MARK not in printed
    assert SECRET not in printed


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_no_part_of_a_request_is_logged(service: Service, event: dict[str, Any]) -> None:
    service.post(stripe_request(BODY))
    service.post(marked({"headers": {}, **event}))
    assert len(service.lines) == 2
    check(service)


FAULTS: dict[str, tuple[str, str, Fault]] = {
    "commit": ("sender", "TransactWriteItems", refused("AccessDeniedException")),
    "commit for good": ("sender", "TransactWriteItems", cancelled("None", "ValidationError")),
    "secrets": ("secretsmanager", "GetSecretValue", refused("AccessDeniedException")),
    "secrets without an answer": ("secretsmanager", "GetSecretValue", never_sent()),
}


@pytest.mark.parametrize(("client", "operation", "fault"), FAULTS.values(), ids=FAULTS)
def test_no_part_of_a_request_is_logged_if_aws_fails(
    service: Service, faults: ExitStack, client: str, operation: str, fault: Fault
) -> None:
    faults.enter_context(inject(getattr(service, client), operation, *[fault] * 9))
    assert service.post(marked(stripe_request(BODY))) == 503
    assert "webhook not captured" in service.log.getvalue()
    check(service)


def test_an_error_that_nobody_expects_is_logged_by_its_class_and_place(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(event: Any) -> Any:
        raise ValueError(MARK) from KeyError(MARK)

    monkeypatch.setattr(ingress, "route_of", fail)
    assert service.post(marked(stripe_request(BODY))) == 503
    [line] = service.log.getvalue().splitlines()
    assert json.loads(line)["error"].startswith("ValueError at fail:")
    check(service)


def test_a_line_that_cannot_be_printed_does_not_change_the_answer(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(MetricsLog, "report", fail)
    answer = service.ingress.handle(stripe_request(BODY), FakeContext())
    assert answer["statusCode"] == 200
