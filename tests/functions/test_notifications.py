from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sesv2.models import sesv2_backends

from functions.notifications import mail
from once import Call
from once.testing import FakeAws, Fault, answer_lost, cloud_event, inject, refused
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
def aws(once_aws: Callable[..., FakeAws]) -> FakeAws:
    return once_aws("notifications")


@pytest.fixture
def client() -> Any:
    """The function's own client of SES, with its timeout of three seconds."""
    return mail._client(3)


def event_of(event_type: str = "payment.captured") -> dict[str, Any]:
    data = {"order_id": "o-1", "email": "a@example.com", "currency": "EUR", "amount": 1905}
    return cloud_event(event_type, data)


def sent() -> list[Any]:
    """Return the e-mails that SES has sent."""
    return list(sesv2_backends[DEFAULT_ACCOUNT_ID]["us-east-1"].core_backend.sent_messages)


def test_a_payment_is_confirmed_once(aws: FakeAws) -> None:
    event = event_of()
    aws.deliver(event, event)
    [email] = sent()
    assert email.source == SENDER
    assert email.destinations["ToAddresses"] == ["a@example.com"]
    assert "We have received 19.05 EUR for your order o-1." in email.body
    [item] = aws.items("notifications")
    assert (item["order_id"], item["message_id"]) == ("o-1", email.id)


@pytest.mark.parametrize(
    ("event_type", "words"),
    [
        ("payment.declined", "Your card was declined"),
        ("order.cancelled", "not received your payment in time"),
        ("stock.refused", "more than we have"),
    ],
)
def test_each_end_without_a_payment_has_its_own_text(
    aws: FakeAws, event_type: str, words: str
) -> None:
    aws.deliver(event_of(event_type))
    [email] = sent()
    assert words in email.body
    assert email.subject == "Your order o-1"


@pytest.mark.parametrize(
    ("fault", "count"),
    [(answer_lost(), 1), (refused("InternalFailure", status=500), 0)],
    ids=["answer lost", "server error"],
)
def test_an_e_mail_with_unknown_outcome_is_not_sent_again(
    aws: FakeAws, client: Any, fault: Fault, count: int
) -> None:
    event = event_of()
    with inject(client, SEND, fault) as left:
        assert failures(aws.deliver(event, fails=True)) == []
    assert left == []
    assert failures(aws.deliver(event, fails=True)) == []
    assert reasons(aws) == ["effect-unknown"] * 2
    assert len(sent()) == count


def test_a_throttled_e_mail_is_sent_later(aws: FakeAws, client: Any) -> None:
    event, fault = event_of(), refused("TooManyRequestsException", status=429)
    with inject(client, SEND, fault, fault, fault) as left:
        assert len(failures(aws.deliver(event, fails=True))) == 1
    assert left == []
    assert failures(aws.deliver(event)) == []
    assert len(sent()) == 1


def test_an_e_mail_that_ses_rejects_is_quarantined(aws: FakeAws, client: Any) -> None:
    with inject(client, SEND, refused("MessageRejected")) as left:
        assert failures(aws.deliver(event_of(), fails=True)) == []
    assert left == []
    [dead_letter] = aws.dead_letters()
    assert facts(dead_letter)["reason"] == "permanent"
    assert "MessageRejected" in facts(dead_letter)["error"]


def test_an_attempt_that_did_not_reach_ses_is_repeated(aws: FakeAws, client: Any) -> None:
    left = [ConnectTimeoutError(endpoint_url="ses")]

    def fail(**_: Any) -> None:
        if left:
            raise left.pop()

    client.meta.events.register("before-call.sesv2.SendEmail", fail)
    assert failures(aws.deliver(event_of())) == []
    client.meta.events.unregister("before-call.sesv2.SendEmail", fail)
    assert len(sent()) == 1


def test_the_sdk_does_not_retry(client: Any) -> None:
    # A retry would be a second e-mail.
    attempts: list[None] = []

    def lose(**_: Any) -> None:
        attempts.append(None)
        raise ReadTimeoutError(endpoint_url="ses")

    client.meta.events.register_first("before-send.sesv2.SendEmail", lose)
    with pytest.raises(ReadTimeoutError):
        mail.send(to="a@example.com", subject="s", text="t", call=Call("key", 3))
    assert len(attempts) == 1


@pytest.mark.parametrize(("given", "used"), [(3.9, 3), (0.2, 1)])
def test_the_timeout_is_rounded_to_whole_seconds(given: float, used: int) -> None:
    mail.send(to="a@example.com", subject="s", text="t", call=Call("key", given))
    config: Any = mail._client(used).meta.config
    assert config.connect_timeout + config.read_timeout == used
    assert mail._client.cache_info().currsize == 1  # the client that was used
