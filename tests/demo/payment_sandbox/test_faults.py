import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import stripe

from demo.payment_sandbox import FaultRates, PaymentFault, PaymentSandbox, payment_sandbox
from demo.quiescence import wait_until
from tests.demo.payment_sandbox.customer import DECLINED, Customer, Outcome, customer_of

LOST: Outcome = (stripe.APIConnectionError, None)
FAILED: Outcome = (stripe.APIError, 500)
UNAVAILABLE: Outcome = (stripe.APIError, 503)
RATE_LIMITED: Outcome = (stripe.RateLimitError, 429)
# The first request's outcome, the number of charges, and the outcome of the next request.
FAULTS: dict[PaymentFault, tuple[Outcome | str, int, Outcome | str]] = {
    PaymentFault.DROP: (LOST, 1, "replayed"),
    PaymentFault.DROP_BEFORE: (LOST, 0, "new"),
    PaymentFault.DELAY: ("new", 1, "replayed"),
    PaymentFault.ERROR_BEFORE: (FAILED, 0, FAILED),
    PaymentFault.ERROR_AFTER: (FAILED, 1, FAILED),
    PaymentFault.UNAVAILABLE: (UNAVAILABLE, 0, "new"),
    PaymentFault.RATE_LIMITED: (RATE_LIMITED, 0, "new"),
    PaymentFault.HOLD_BEFORE: ("new", 1, "replayed"),
    PaymentFault.HOLD_AFTER: ("new", 1, "replayed"),
}


@pytest.fixture
def sandbox() -> Iterator[PaymentSandbox]:
    with payment_sandbox(FaultRates(delay_seconds=0, hold_seconds=0)) as running:
        yield running


@pytest.mark.parametrize("fault", PaymentFault)
def test_a_fault_has_its_effect_on_the_request_and_the_next_one(
    customer: Customer, fault: PaymentFault
) -> None:
    first, charges, second = FAULTS[fault]
    customer.sandbox.script(fault)
    assert customer.outcome() == first
    assert customer.statuses() == ["succeeded"] * charges
    assert customer.outcome() == second
    assert customer.statuses() == ["succeeded"] * (charges + (second == "new"))
    assert customer.sandbox.fired == Counter({fault: 1})


def test_a_decline_is_saved_although_its_answer_is_dropped(customer: Customer) -> None:
    customer.sandbox.script(PaymentFault.DROP)
    assert customer.outcome(payment_method=DECLINED) == LOST
    assert customer.outcome(payment_method=DECLINED) == (stripe.CardError, 402)
    assert customer.statuses() == ["failed"]


@pytest.mark.parametrize("fault", [PaymentFault.DROP, PaymentFault.DROP_BEFORE])
def test_a_drop_closes_the_connection(customer: Customer, fault: PaymentFault) -> None:
    customer.sandbox.script(fault)
    with pytest.raises(stripe.APIConnectionError, match="Remote end closed connection without"):
        customer.pay()


def test_a_delay_exceeds_the_timeout_of_a_client() -> None:
    faults = FaultRates(shares={PaymentFault.DELAY: 1}, delay_seconds=3600)
    with payment_sandbox(faults) as sandbox:
        with customer_of(sandbox, timeout=0.1) as hasty:
            assert hasty.outcome() == LOST
        wait_until("it is charged", lambda: bool(sandbox.charges()), timeout=20)
        with customer_of(sandbox) as patient:
            assert patient.outcome() == (stripe.APIError, 409)
            assert patient.statuses() == ["succeeded"]
    assert sandbox.fired == Counter({PaymentFault.DELAY: 1})


def test_scripted_faults_come_in_order_and_before_random_ones(customer: Customer) -> None:
    customer.sandbox.faults = FaultRates(shares={PaymentFault.RATE_LIMITED: 1})
    customer.sandbox.script(PaymentFault.UNAVAILABLE, None)
    assert [customer.outcome(key) for key in "abc"] == [UNAVAILABLE, "new", RATE_LIMITED]


def test_a_scripted_fault_waits_for_an_execution(customer: Customer) -> None:
    customer.pay("a")
    customer.sandbox.script(PaymentFault.DROP)
    assert customer.outcome("a") == "replayed"
    assert customer.outcome("a", amount=1) == (stripe.IdempotencyError, 400)
    assert customer.outcome("b", amount=0) == (stripe.InvalidRequestError, 400)
    assert not customer.sandbox.fired
    assert customer.outcome("b") == LOST


def test_a_limit_bounds_the_number_of_faults(customer: Customer) -> None:
    limited = PaymentFault.UNAVAILABLE
    customer.sandbox.faults = FaultRates(shares={limited: 1}, limits={limited: 2})
    assert [customer.outcome() for _ in range(3)] == [UNAVAILABLE, UNAVAILABLE, "new"]
    assert customer.sandbox.fired == Counter({limited: 2})


def test_fault_rates_can_be_replaced(customer: Customer) -> None:
    customer.sandbox.faults = FaultRates(shares={PaymentFault.DROP_BEFORE: 1})
    assert customer.outcome() == LOST
    customer.sandbox.faults = FaultRates()
    assert customer.outcome() == "new"


def test_the_counter_of_faults_is_a_copy(sandbox: PaymentSandbox) -> None:
    sandbox.fired[PaymentFault.DROP] += 1
    assert not sandbox.fired


def drawn(faults: FaultRates, keys: list[str]) -> dict[str, list[PaymentFault | None]]:
    return {key: [faults.draw(key, nth) for nth in (1, 2)] for key in keys}


def test_random_faults_depend_on_seed_key_and_attempt() -> None:
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


def test_random_faults_do_not_depend_on_the_order_of_requests() -> None:
    keys = [f"key-{number}" for number in range(20)]

    def seen(order: list[str]) -> Mapping[str, Any]:
        faults = FaultRates(seed=1, shares={PaymentFault.UNAVAILABLE: 0.5})
        with payment_sandbox(faults) as sandbox, customer_of(sandbox) as customer:
            return {key: [customer.outcome(key) for _ in "12"] for key in order}

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
def test_invalid_fault_rates_are_rejected(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaultRates(**wrong)


def test_shares_may_add_up_to_1() -> None:
    faults = FaultRates(shares={fault: 1 / len(PaymentFault) for fault in PaymentFault})
    assert None not in {faults.draw(str(number), 1) for number in range(100)}
