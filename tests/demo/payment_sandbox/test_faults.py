"""Each fault of the payment sandbox does what it says, and chance is the seed's alone."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import stripe

from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox, payment_sandbox
from demo.quiescence import wait_until
from tests.demo.payment_sandbox.customer import DECLINED, Customer, customer_of

FOREVER = 3600.0
Outcome = tuple[type[Exception], int | None]

LOST: Outcome = (stripe.APIConnectionError, None)
FAILED: Outcome = (stripe.APIError, 500)
# What the client sees, how many charges there are, and what the next request comes to.
FAULTS: dict[PaymentFault, tuple[Outcome | None, int, Outcome | str]] = {
    PaymentFault.DROP: (LOST, 1, "replayed"),
    PaymentFault.DROP_BEFORE: (LOST, 0, "new"),
    PaymentFault.DELAY: (None, 1, "replayed"),
    PaymentFault.ERROR_BEFORE: (FAILED, 0, FAILED),
    PaymentFault.ERROR_AFTER: (FAILED, 1, FAILED),
    PaymentFault.UNAVAILABLE: ((stripe.APIError, 503), 0, "new"),
    PaymentFault.RATE_LIMITED: ((stripe.RateLimitError, 429), 0, "new"),
    PaymentFault.HOLD_BEFORE: (None, 1, "replayed"),
    PaymentFault.HOLD_AFTER: (None, 1, "replayed"),
}
AT_ONCE = FaultRates(delay_seconds=0, hold_seconds=0)


@pytest.fixture
def sandbox() -> Iterator[PaymentSandbox]:
    with payment_sandbox(AT_ONCE) as running:
        yield running


def outcome(customer: Customer, key: str = "key-1", **changes: Any) -> Outcome | str:
    """Tell what a payment came to: an error with its status, or whether it was a replay."""
    try:
        response = customer.pay(key, **changes).last_response
    except stripe.StripeError as error:
        return type(error), error.http_status
    assert response is not None
    return "replayed" if "Idempotent-Replayed" in response.headers else "new"


def statuses(sandbox: PaymentSandbox) -> list[str]:
    return [charge["status"] for charge in sandbox.charges()]


def test_every_fault_is_tested() -> None:
    assert set(FAULTS) == set(PaymentFault)


@pytest.mark.parametrize("fault", PaymentFault)
def test_a_fault_and_the_request_after_it(
    sandbox: PaymentSandbox, customer: Customer, fault: PaymentFault
) -> None:
    seen, charges, after = FAULTS[fault]
    sandbox.script(fault)
    assert outcome(customer) == (seen or "new")
    assert statuses(sandbox) == ["succeeded"] * charges
    assert outcome(customer) == after
    assert statuses(sandbox) == ["succeeded"] * (charges + (after == "new"))
    assert sandbox.fired == Counter({fault: 1})


def test_a_decline_whose_answer_is_lost_is_saved(
    sandbox: PaymentSandbox, customer: Customer
) -> None:
    sandbox.script(PaymentFault.DROP)
    assert outcome(customer, payment_method=DECLINED) == LOST
    assert outcome(customer, payment_method=DECLINED) == (stripe.CardError, 402)
    assert statuses(sandbox) == ["failed"]


def test_a_dropped_connection_is_seen_at_once(sandbox: PaymentSandbox, customer: Customer) -> None:
    for number, fault in enumerate((PaymentFault.DROP, PaymentFault.DROP_BEFORE)):
        sandbox.script(fault)
        with pytest.raises(stripe.APIConnectionError, match="Remote end closed connection without"):
            customer.pay(f"key-{number}")


def test_a_delay_outlasts_an_impatient_client() -> None:
    faults = FaultRates(shares={PaymentFault.DELAY: 1}, delay_seconds=FOREVER)
    with payment_sandbox(faults) as sandbox:
        with customer_of(sandbox, timeout=0.1) as hasty:
            assert outcome(hasty) == LOST
        wait_until("it is charged", lambda: bool(sandbox.charges()), timeout=20)
        with customer_of(sandbox) as patient:
            assert outcome(patient) == (stripe.APIError, 409)
        assert statuses(sandbox) == ["succeeded"]
    assert sandbox.fired == Counter({PaymentFault.DELAY: 1})


def test_a_script_comes_in_its_order_and_before_chance(
    sandbox: PaymentSandbox, customer: Customer
) -> None:
    sandbox.faults = FaultRates(shares={PaymentFault.RATE_LIMITED: 1})
    sandbox.script(PaymentFault.UNAVAILABLE, None)
    seen = [outcome(customer, key) for key in "abc"]
    assert seen == [(stripe.APIError, 503), "new", (stripe.RateLimitError, 429)]


def test_a_script_waits_for_requests_that_execute(
    sandbox: PaymentSandbox, customer: Customer
) -> None:
    customer.pay("a")
    sandbox.script(PaymentFault.DROP)
    assert outcome(customer, "a") == "replayed"
    assert outcome(customer, "a", amount=1) == (stripe.IdempotencyError, 400)
    assert outcome(customer, "b", amount=0) == (stripe.InvalidRequestError, 400)
    assert not sandbox.fired
    assert outcome(customer, "b") == LOST


def test_there_are_at_most_so_many(sandbox: PaymentSandbox, customer: Customer) -> None:
    sandbox.faults = FaultRates(
        shares={PaymentFault.UNAVAILABLE: 1}, limits={PaymentFault.UNAVAILABLE: 2}
    )
    seen = [outcome(customer) for _ in range(3)]
    assert seen == [(stripe.APIError, 503), (stripe.APIError, 503), "new"]
    assert sandbox.fired == Counter({PaymentFault.UNAVAILABLE: 2})


def test_faults_may_be_replaced(sandbox: PaymentSandbox, customer: Customer) -> None:
    sandbox.faults = FaultRates(shares={PaymentFault.DROP_BEFORE: 1})
    assert outcome(customer) == LOST
    sandbox.faults = FaultRates()
    assert outcome(customer) == "new"


def test_what_was_counted_is_a_copy(sandbox: PaymentSandbox) -> None:
    sandbox.fired[PaymentFault.DROP] += 1
    assert not sandbox.fired


def drawn(faults: FaultRates, keys: list[str]) -> dict[str, list[PaymentFault | None]]:
    return {key: [faults.draw(key, nth) for nth in (1, 2)] for key in keys}


def test_chance_depends_on_seed_key_and_number() -> None:
    keys = [f"key-{number}" for number in range(200)]
    faults = FaultRates(seed=7, shares={PaymentFault.DROP: 0.25, PaymentFault.DELAY: 0.5})
    same = FaultRates(seed=7, shares={PaymentFault.DELAY: 0.5, PaymentFault.DROP: 0.25})
    draws = drawn(faults, keys)
    assert draws == drawn(same, keys[::-1])
    assert draws != drawn(FaultRates(seed=8, shares=faults.shares), keys)
    assert any(first != second for first, second in draws.values())
    counted = Counter(first for first, _ in draws.values())
    assert counted.keys() == {PaymentFault.DROP, PaymentFault.DELAY, None}
    assert 30 < counted[PaymentFault.DROP] < 70 < counted[PaymentFault.DELAY] < 130


def test_the_order_of_the_requests_does_not_change_what_a_key_meets() -> None:
    keys = [f"key-{number}" for number in range(20)]

    def seen(order: list[str]) -> Mapping[str, Any]:
        faults = FaultRates(seed=1, shares={PaymentFault.UNAVAILABLE: 0.5})
        with payment_sandbox(faults) as sandbox, customer_of(sandbox) as customer:
            return {key: [outcome(customer, key) for _ in "12"] for key in order}

    answers = seen(keys)
    assert answers == seen(keys[::-1])
    assert len({str(answer) for answer in answers.values()}) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shares": {"drip": 0.5}}, "shares: no such fault: drip; there are drop, drop_before"),
        ({"shares": {PaymentFault.DROP: 1.5}}, r"shares: drop is 1\.5"),
        ({"shares": {PaymentFault.DROP: -0.1}}, r"shares: drop is -0\.1"),
        ({"shares": {PaymentFault.DROP: math.nan}}, "shares: drop is nan"),
        (
            {"shares": {PaymentFault.DROP: 0.6, PaymentFault.DELAY: 0.6}},
            r"shares: they are 1\.2 together",
        ),
        ({"limits": {"drip": 1}}, "limits: no such fault: drip"),
        ({"limits": {PaymentFault.DROP: -1}}, "limits: drop is -1"),
        ({"delay_seconds": -1}, "delay_seconds is -1"),
        ({"delay_seconds": math.inf}, "delay_seconds is inf"),
        ({"hold_seconds": math.nan}, "hold_seconds is nan"),
    ],
)
def test_faults_that_make_no_sense_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaultRates(**wrong)


def test_shares_may_be_all_there_is() -> None:
    faults = FaultRates(shares={fault: 1 / len(PaymentFault) for fault in PaymentFault})
    assert None not in {faults.draw(str(number), 1) for number in range(100)}
