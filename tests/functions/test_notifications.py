"""The notifications consumer: one e-mail for an order's end, and none where nobody knows."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sesv2.models import sesv2_backends

from functions.notifications import mail
from functions.notifications.handler import consumer
from once import Call
from once.testing import FakeAws, Fault, answer_lost, cloud_event, inject, never_sent, refused
from tests.once.support import facts, failures, reasons

SEND = "SendEmail"
SENDER = "shop@example.com"


@pytest.fixture(autouse=True)
def _ses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EMAIL_SENDER", SENDER)
    mail._client.cache_clear()
    boto3.client("ses", "us-east-1").verify_email_identity(EmailAddress=SENDER)
    yield
    mail._client.cache_clear()


@pytest.fixture
def aws() -> Iterator[FakeAws]:
    with FakeAws(consumer, {"notifications": "order_id"}, effect_timeout_seconds=3) as fake:
        yield fake


@pytest.fixture
def client() -> Any:
    """The function's own client of SES, for calls of three seconds."""
    return mail._client(3)


def captured(order_id: str = "o-1") -> dict[str, Any]:
    data = {"order_id": order_id, "email": "a@example.com", "currency": "EUR", "amount": 1905}
    return cloud_event("payment.captured", data)


def outbox() -> list[Any]:
    """The e-mails that were sent."""
    return list(sesv2_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].core_backend.sent_messages)


def test_a_customer_is_told_once_however_often_the_event_comes(aws: FakeAws) -> None:
    event = captured()
    assert failures(aws.deliver(event, event)) == []
    assert failures(aws.deliver(event)) == []
    [sent] = outbox()
    assert sent.source == SENDER
    assert sent.destinations["ToAddresses"] == ["a@example.com"]
    assert "We have received 19.05 EUR for your order o-1." in sent.body
    [told] = aws.items("notifications")
    assert (told["order_id"], told["message_id"]) == ("o-1", sent.id)


@pytest.mark.parametrize(
    ("event_type", "words"),
    [("payment.declined", "Your card was declined"), ("stock.refused", "more than we have")],
)
def test_bad_news_has_words_of_its_own(aws: FakeAws, event_type: str, words: str) -> None:
    assert failures(aws.deliver(cloud_event(event_type, captured()["data"]))) == []
    [sent] = outbox()
    assert words in sent.body
    assert sent.subject == "Your order o-1"


def test_each_order_has_its_own_message(aws: FakeAws) -> None:
    aws.deliver(captured("o-1"), captured("o-2"))
    assert len(outbox()) == 2


@pytest.mark.parametrize(
    ("fault", "sent"),
    [(answer_lost(), 1), (never_sent(), 0), (refused("InternalFailure", status=500), 0)],
    ids=["answer lost", "no answer", "server error"],
)
def test_an_e_mail_of_which_nobody_knows_is_not_sent_again(
    aws: FakeAws, client: Any, fault: Fault, sent: int
) -> None:
    event = captured()
    with inject(client, SEND, fault) as left:
        assert failures(aws.deliver(event)) == []
    assert left == []
    assert failures(aws.deliver(event)) == []
    assert reasons(aws) == ["effect-unknown"] * 2
    assert len(outbox()) == sent


@pytest.mark.parametrize("code", ["TooManyRequestsException", "LimitExceededException"])
def test_an_e_mail_that_ses_did_not_take_is_sent_later(
    aws: FakeAws, client: Any, code: str
) -> None:
    event, fault = captured(), refused(code, status=429)
    with inject(client, SEND, fault, fault, fault) as left:
        assert len(failures(aws.deliver(event))) == 1
    assert left == []
    assert failures(aws.deliver(event)) == []
    assert len(outbox()) == 1


@pytest.mark.parametrize("code", ["MessageRejected", "BadRequestException", "NotFoundException"])
def test_an_e_mail_that_ses_refuses_is_quarantined(aws: FakeAws, client: Any, code: str) -> None:
    with inject(client, SEND, refused(code)) as left:
        assert failures(aws.deliver(captured())) == []
    assert left == []
    [letter] = aws.dead_letters()
    assert facts(letter)["reason"] == "permanent"
    assert code in facts(letter)["error"]


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url="ses"),
        EndpointConnectionError(endpoint_url="ses"),
    ],
    ids=["too slow", "refused"],
)
def test_ses_that_was_not_reached_has_sent_nothing(
    aws: FakeAws, client: Any, error: Exception
) -> None:
    event, left = captured(), [error]

    def fail(**_: Any) -> None:
        if left:
            raise left.pop()

    client.meta.events.register("before-call.sesv2.SendEmail", fail)
    assert failures(aws.deliver(event)) == []
    client.meta.events.unregister("before-call.sesv2.SendEmail", fail)
    assert len(outbox()) == 1


def test_the_sdk_makes_one_attempt_and_no_second_of_its_own(client: Any) -> None:
    # It would be a second e-mail.
    attempts: list[None] = []

    def lose(**_: Any) -> None:
        attempts.append(None)
        raise ReadTimeoutError(endpoint_url="ses")

    client.meta.events.register_first("before-send.sesv2.SendEmail", lose)
    with pytest.raises(ReadTimeoutError):
        mail.send(to="a@example.com", subject="s", text="t", call=Call("key", 3))
    assert len(attempts) == 1


@pytest.mark.parametrize(("given", "used"), [(3, 3), (3.9, 3), (1, 1), (0.2, 1)])
def test_a_call_has_the_time_it_is_given_in_whole_seconds(given: float, used: int) -> None:
    mail.send(to="a@example.com", subject="s", text="t", call=Call("key", given))
    config: Any = mail._client(used).meta.config
    assert config.connect_timeout + config.read_timeout == used
    assert mail._client.cache_info().currsize == 1  # the one that was used
