"""Faults of AWS: a request is answered with success only if its webhook is durable."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest

from once.names import Metric
from once.testing.faults import Fault, answer_lost, cancelled, inject, never_sent, refused
from once.webhooks.endpoint import SLACK, Endpoint
from once.webhooks.signature import REFRESH_SECONDS
from tests.once.webhooks.service import (
    Service,
    github_request,
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
    assert '"message":"webhook not captured"' in service.log.getvalue()


@pytest.mark.parametrize("fault", [DENIED, NO_TABLE])
def test_the_log_names_the_service_and_the_code_of_a_refusal(
    service: Service, faults: ExitStack, fault: Fault
) -> None:
    faults.enter_context(inject(service.sender, COMMIT, fault))
    assert service.post(stripe_request(stripe_body())) == 503
    code = (fault.error or {})["Error"]["Code"]
    expected = f"RequestRefused: DynamoDB refused the commit: {code}"
    assert json.loads(service.log.getvalue())["error"] == expected


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


def test_an_endpoint_without_a_secret_is_no_success() -> None:
    service = Service()
    service.ingress._endpoints["other"] = Endpoint("other", SLACK)
    assert service.post(slack_request(b"{}") | {"rawPath": "/other"}) == 503


class TestLargeBodies:
    """Bodies that are objects in S3."""

    BODY = b'{"ref": "%s"}' % (b"x" * 300_000)

    @pytest.fixture
    def service(self) -> Service:
        boto3.client("s3", "us-east-1").create_bucket(Bucket="claims")
        return Service(claim_bucket="claims", max_body_bytes=4 * 1024 * 1024)

    @pytest.mark.parametrize("fault", [never_sent(), refused("SlowDown", status=503)])
    def test_nothing_commits_before_its_objects_are_stored(
        self, service: Service, fault: Fault
    ) -> None:
        with inject(service.s3, "PutObject", *[fault] * ALWAYS):
            assert service.post(github_request(self.BODY)) == 503
        assert service.captures() == []
        assert service.post(github_request(self.BODY)) == 200
        assert service.counted() == [{Metric.WEBHOOKS_FAILED}, {Metric.WEBHOOKS_TAKEN}]

    def test_a_duplicate_stores_nothing(self, service: Service) -> None:
        assert service.post(github_request(self.BODY)) == 200
        with inject(service.s3, "PutObject", *[never_sent()] * ALWAYS) as left:
            assert service.post(github_request(self.BODY)) == 200
        assert len(left) == ALWAYS
        assert service.counted()[1] == {Metric.WEBHOOK_DUPLICATES}

    def test_a_webhook_is_taken_although_it_cannot_be_looked_up(self, service: Service) -> None:
        with inject(service.sender, LOOK_UP, never_sent()) as left:
            assert service.post(github_request(self.BODY)) == 200
        assert left == []
        assert service.counted() == [{Metric.WEBHOOKS_TAKEN}]
