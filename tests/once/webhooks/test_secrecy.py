"""Log and metrics of the ingress contain no part of a request, and no secret."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from once.runtime.metrics_log import MetricsLog
from once.testing.events import FakeContext
from once.testing.faults import Fault, cancelled, inject, never_sent, refused
from once.webhooks.webhook import RequestLine
from tests.once.webhooks.service import (
    SECRET,
    Service,
    github_request,
    request,
    slack_request,
    stripe_body,
    stripe_request,
)

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


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def faults() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


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

    monkeypatch.setattr(RequestLine, "of", fail)
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
