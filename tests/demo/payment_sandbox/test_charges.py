"""The payments function against a real provider on this machine: whatever it does, one charge."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import stripe
from msgspec import convert, json

from demo.audit import Findings
from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox, payment_sandbox
from demo.quiescence import wait_until
from functions.payments import provider
from functions.payments.handler import KEY_LIFETIME_SECONDS, StockReserved, consumer
from once import Call, NotDone, PermanentError, Transaction
from once.deadline import Deadline
from once.effects.executor import EffectExecutor
from once.errors import Unanswered
from once.handlers.effect_declaration import Effect
from once.testing import FakeAws
from tests.demo.payment_sandbox.charging import (
    DECLINED,
    audited,
    aws_of_payments,
    is_done,
    killed_after_the_charge,
    later,
    paid,
    reasons,
    reserved,
    sandbox_of_payments,
    statuses,
    until_done,
)


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[PaymentSandbox]:
    with sandbox_of_payments(monkeypatch) as running:
        yield running


@pytest.fixture
def aws(sandbox: PaymentSandbox) -> Iterator[FakeAws]:
    with aws_of_payments() as fake:
        yield fake


FAULTS = [
    PaymentFault.DROP,
    PaymentFault.DROP_BEFORE,
    PaymentFault.ERROR_BEFORE,
    PaymentFault.ERROR_AFTER,
    PaymentFault.UNAVAILABLE,
    PaymentFault.RATE_LIMITED,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_x1_whatever_one_attempt_meets_the_order_is_charged_once(
    aws: FakeAws, sandbox: PaymentSandbox, fault: PaymentFault
) -> None:
    sandbox.script(fault)
    assert is_done(aws, reserved())
    assert statuses(sandbox) == ["succeeded"]
    assert sandbox.fired == {fault: 1}
    [charge], [payment] = sandbox.charges(), aws.items("payments")
    assert (payment["status"], payment["charge_id"]) == ("captured", charge["id"])
    assert aws.dead_letters() == []


@pytest.mark.parametrize("fault", FAULTS)
def test_x1_where_every_attempt_of_a_delivery_fails_the_next_one_goes_on(
    aws: FakeAws, sandbox: PaymentSandbox, fault: PaymentFault
) -> None:
    sandbox.script(*[fault] * 3)
    until_done(aws, reserved())
    assert statuses(sandbox) == ["succeeded"]
    assert paid(aws) == [("o-1", "captured")]


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_declined_card_is_an_outcome_whatever_happens_on_the_way(
    aws: FakeAws, sandbox: PaymentSandbox, fault: PaymentFault | None
) -> None:
    sandbox.script(fault)
    until_done(aws, reserved(card=DECLINED))
    assert statuses(sandbox) == ["failed"]
    [payment] = aws.items("payments")
    assert (payment["status"], payment["decline_code"]) == ("declined", "card_declined")


@pytest.mark.parametrize("fault", [PaymentFault.DROP, PaymentFault.DROP_BEFORE])
def test_x1_every_attempt_is_made_under_one_key(
    aws: FakeAws, sandbox: PaymentSandbox, fault: PaymentFault
) -> None:
    sandbox.script(fault)
    until_done(aws, reserved())
    [charge], [record] = sandbox.charges(), aws.items("dedup")
    assert charge["idempotency_key"] == record["provider_key"]
    assert charge["transfer_group"] == "o-1"


def test_x2_a_charge_that_takes_longer_than_the_call_is_waited_for_and_not_repeated(
    sandbox: PaymentSandbox, aws: FakeAws
) -> None:
    aws.runtime = replace(
        aws.runtime, settings=replace(aws.runtime.settings, effect_timeout_seconds=1)
    )
    sandbox.faults = FaultRates(delay_seconds=3600)
    sandbox.script(PaymentFault.DELAY)
    event = reserved()
    aws.deliver(event)  # the first attempt gets no answer, the others a 409
    [record] = aws.items("dedup")
    assert (record["state"], record["standing"]) == ("pending", "unknown")
    assert statuses(sandbox) == ["succeeded"]
    assert aws.dead_letters() == []
    sandbox._api.holds.end()
    wait_until("it is done", lambda: is_done(aws, event), timeout=20)
    assert statuses(sandbox) == ["succeeded"]
    assert paid(aws) == [("o-1", "captured")]


def test_x3_a_saved_error_before_the_charge_is_followed_by_one_under_a_new_key(
    aws: FakeAws, sandbox: PaymentSandbox
) -> None:
    sandbox.script(PaymentFault.ERROR_BEFORE)
    until_done(aws, reserved())
    [charge] = sandbox.charges()
    assert charge["idempotency_key"].endswith("-charge-2")


def test_x3_a_saved_error_after_the_charge_is_looked_behind(
    aws: FakeAws, sandbox: PaymentSandbox
) -> None:
    sandbox.script(PaymentFault.ERROR_AFTER)
    until_done(aws, reserved())
    [charge], [payment] = sandbox.charges(), aws.items("payments")
    assert charge["idempotency_key"].endswith("-charge-1")
    assert payment["charge_id"] == charge["id"]


def test_x4_past_the_life_of_the_key_there_is_no_second_charge(
    aws: FakeAws, sandbox: PaymentSandbox
) -> None:
    event = reserved()
    with killed_after_the_charge():
        assert not is_done(aws, event)
    later(aws, KEY_LIFETIME_SECONDS)
    assert not is_done(aws, event)
    assert reasons(aws) == ["effect-unknown"]
    assert statuses(sandbox) == ["succeeded"]


def test_amounts_are_minor_units_and_currencies_codes(
    aws: FakeAws, sandbox: PaymentSandbox
) -> None:
    aws.deliver(reserved("o-1", amount=1905, currency="EUR"), reserved("o-2", currency="jpy"))
    found = {c["transfer_group"]: (c["amount"], c["currency"]) for c in sandbox.charges()}
    assert found == {"o-1": (1905, "eur"), "o-2": (700, "jpy")}


@pytest.mark.parametrize("changes", [{"amount": 0}, {"amount": -1}, {"currency": "euro"}])
def test_what_the_provider_never_takes_is_quarantined(
    aws: FakeAws, sandbox: PaymentSandbox, changes: dict[str, Any]
) -> None:
    aws.deliver(reserved(**changes))
    assert reasons(aws) == ["permanent"]
    assert sandbox.charges() == []


def charge(key: str = "key-1", **changes: Any) -> provider.Result:
    asked = {"amount": 700, "currency": "EUR", "payment_method": "pm_card_visa", "order_id": "o-1"}
    return provider.charge(**{**asked, **changes}, call=Call(key, 5))


def test_a_refused_connection_is_nothing_done(
    sandbox: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with payment_sandbox() as gone:
        monkeypatch.setenv("PAYMENT_API", gone.url)
    with pytest.raises(NotDone, match="not reached"):
        charge()


def test_a_wrong_api_key_is_nothing_done(
    sandbox: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_api_key", lambda: " ")
    with pytest.raises(NotDone, match="AuthenticationError"):
        charge()
    assert sandbox.charges() == []


def test_a_key_of_another_charge_says_nothing_of_this_one(sandbox: PaymentSandbox) -> None:
    charge()
    with pytest.raises(stripe.IdempotencyError):
        charge(amount=1)
    with pytest.raises(PermanentError):
        charge("key-2", amount=0)
    assert len(sandbox.charges()) == 1


def call_at_once(
    executor: EffectExecutor,
    transaction: Transaction,
    requested: tuple[Effect, bytes],
    deadline: Deadline,
) -> None:
    """Stands in for the intent: call before anything is written, under a key that is new."""
    effect, request = requested
    transaction.request = None
    try:
        outcome = effect.function(json.decode(request, type=effect.model), Call(uuid4().hex, 2))
    except Exception as error:
        raise Unanswered from error
    event = convert(transaction.event.data, StockReserved)
    consumer.completions[effect.name].function(event, outcome, transaction)


def bad_traffic(aws: FakeAws, sandbox: PaymentSandbox) -> Findings:
    """Order `o-1` loses an answer, in `o-2` the function is killed; return what an audit finds."""
    sandbox.script(PaymentFault.DROP)
    until_done(aws, reserved("o-1"))
    with killed_after_the_charge():
        until_done(aws, reserved("o-2"))
    until_done(aws, reserved("o-3"))
    assert paid(aws) == [(order, "captured") for order in ("o-1", "o-2", "o-3")]
    return audited(aws, sandbox)


def test_x1_without_the_intent_step_the_book_shows_double_charges(
    aws: FakeAws, sandbox: PaymentSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EffectExecutor, "intend", call_at_once)
    findings = bad_traffic(aws, sandbox)
    assert (findings.charges, findings.double_charges, findings.doubled) == (5, 2, 2)
    assert not findings.clean


def test_x1_with_the_intent_step_the_same_traffic_is_one_charge_an_order(
    aws: FakeAws, sandbox: PaymentSandbox
) -> None:
    findings = bad_traffic(aws, sandbox)
    assert (findings.charges, findings.double_charges, findings.doubled) == (3, 0, 0)
    assert findings.clean
