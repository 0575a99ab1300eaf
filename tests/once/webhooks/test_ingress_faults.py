"""Faults of AWS: success only for a durable webhook, and no part of a request in a log."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest

from once.names import Metric
from once.runtime.metrics_log import MetricsLog
from once.testing.events import FakeContext
from once.testing.faults import Fault, answer_lost, cancelled, inject, never_sent, refused
from once.webhooks import ingress
from once.webhooks.signature import REFRESH_SECONDS
from tests.once.webhooks.service import (
    SECRET,
    Service,
    github_request,
    request,
    slack_request,
    stripe_body,
    stripe_request,
)

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
def service() -> Service:
    return Service()


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


LASTING: dict[str, Fault] = {
    "throttled": THROTTLED,
    "contended": CONTENDED,
    "in progress": IN_PROGRESS,
    "never sent": never_sent(),
    "no rights": DENIED,
    "no table": NO_TABLE,
    "refused for good": cancelled("None", "ValidationError"),
}


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
def test_a_lasting_fault_is_answered_with_503(
    service: Service, faults: ExitStack, fault: Fault
) -> None:
    faults.enter_context(inject(service.sender, COMMIT, *[fault] * ALWAYS))
    assert service.post(stripe_request(stripe_body())) == 503
    assert [*service.captures(), *service.events()] == []
    assert service.counted() == [{Metric.WEBHOOKS_FAILED}]
    line = json.loads(service.log.getvalue())
    assert line["message"] == "webhook not captured"
    if fault in (DENIED, NO_TABLE):
        code = (fault.error or {})["Error"]["Code"]
        assert line["error"] == f"RequestRefused: DynamoDB refused the commit: {code}"


def test_a_commit_without_an_answer_and_without_a_look_up_is_no_success(
    service: Service, faults: ExitStack
) -> None:
    with inject(service.sender, COMMIT, *[answer_lost()] * ALWAYS):
        faults.enter_context(inject(service.sender, LOOK_UP, *[never_sent()] * ALWAYS))
        assert service.post(stripe_request(stripe_body())) == 503
    assert len(service.captures()) == 1  # it did commit, and nobody knew
    assert service.post(stripe_request(stripe_body())) == 200
    assert service.counted() == [{Metric.WEBHOOKS_FAILED}, {Metric.WEBHOOK_DUPLICATES}]


@pytest.mark.usefixtures("longest_delays")
@pytest.mark.parametrize(
    ("event", "remaining_ms", "seconds"),
    [
        (stripe_request(stripe_body()), 60_000, 9.5),
        (slack_request(b'{"event_id": "Ev1"}'), 60_000, 2.5),
        (stripe_request(stripe_body()), 7_000, 2),
        (stripe_request(stripe_body()), 4_000, 0),
    ],
    ids=["of the provider", "of a provider in a hurry", "of the function", "none"],
)
def test_attempts_end_with_the_time(
    service: Service, faults: ExitStack, event: dict[str, Any], remaining_ms: int, seconds: float
) -> None:
    began = service.now
    left = faults.enter_context(inject(service.sender, COMMIT, *[THROTTLED] * ALWAYS))

    class Ticking:
        def get_remaining_time_in_millis(self) -> int:
            return remaining_ms - int((service.now - began) * 1000)

    assert service.ingress.handle(event, Ticking())["statusCode"] == 503
    assert seconds - 1 <= service.now - began <= seconds
    assert len(left) == ALWAYS - 1 - service.paused  # one attempt more than pauses


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


def test_a_webhook_is_taken_although_it_cannot_be_looked_up(claiming: Service) -> None:
    with inject(claiming.sender, LOOK_UP, never_sent()) as left:
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
