"""The faults of the payment sandbox, and the requests that it holds."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import psutil
import pytest
import stripe

from demo.payment_sandbox import (
    FaultRates,
    HeldRequest,
    PaymentFault,
    PaymentSandbox,
    payment_sandbox,
)
from demo.quiescence import wait_until
from tests.demo.payment_sandbox import shop_payments

LOST: shop_payments.Outcome = (stripe.APIConnectionError, None)
FAILED: shop_payments.Outcome = (stripe.APIError, 500)
UNAVAILABLE: shop_payments.Outcome = (stripe.APIError, 503)
RATE_LIMITED: shop_payments.Outcome = (stripe.RateLimitError, 429)
# The first request's outcome, the number of charges, and the outcome of the next request.
FAULTS: dict[PaymentFault, tuple[shop_payments.Outcome | str, int, shop_payments.Outcome | str]] = {
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
    customer: shop_payments.Customer, fault: PaymentFault
) -> None:
    first, charges, second = FAULTS[fault]
    customer.sandbox.script(fault)
    assert customer.outcome() == first
    assert customer.statuses() == ["succeeded"] * charges
    assert customer.outcome() == second
    assert customer.statuses() == ["succeeded"] * (charges + (second == "new"))
    assert customer.sandbox.fired == Counter({fault: 1})


def test_scripted_faults_come_in_order_and_before_random_ones(
    customer: shop_payments.Customer,
) -> None:
    customer.sandbox.faults = FaultRates(shares={PaymentFault.RATE_LIMITED: 1})
    customer.sandbox.script(PaymentFault.UNAVAILABLE, None)
    assert [customer.outcome(key) for key in "abc"] == [UNAVAILABLE, "new", RATE_LIMITED]


def test_a_limit_bounds_the_number_of_faults(customer: shop_payments.Customer) -> None:
    limited = PaymentFault.UNAVAILABLE
    customer.sandbox.faults = FaultRates(shares={limited: 1}, limits={limited: 2})
    assert [customer.outcome() for _ in range(3)] == [UNAVAILABLE, UNAVAILABLE, "new"]
    assert customer.sandbox.fired == Counter({limited: 2})


LOCALHOST = "127.0.0.1"
LONG_SECONDS = 3600.0
TIMEOUT = 20
BODY = b"amount=700&currency=eur&confirm=true&payment_method=pm_card_visa&metadata[order_id]=7"
HOLDS = [PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def holding(pool: ThreadPoolExecutor) -> Iterator[PaymentSandbox]:
    # The sandbox must end first: threads of the pool may wait for it.
    with payment_sandbox(FaultRates(hold_seconds=LONG_SECONDS)) as running:
        yield running


def port_of(sandbox: PaymentSandbox) -> int:
    port = urlsplit(sandbox.url).port
    assert port is not None
    return port


def pay(sandbox: PaymentSandbox, key: str = "key-1") -> str:
    """Pay over a new connection, and return the status or the error."""
    with shop_payments.customer_of(sandbox, timeout=TIMEOUT) as customer:
        try:
            return customer.pay(key).status
        except stripe.StripeError as error:
            return f"{error.http_status} {error.error and error.error.code}"


def held(
    sandbox: PaymentSandbox, pool: ThreadPoolExecutor, fault: PaymentFault
) -> tuple[HeldRequest, Future[str]]:
    sandbox.script(fault)
    paying = pool.submit(pay, sandbox)
    return sandbox.held.get(timeout=TIMEOUT), paying


@pytest.mark.parametrize("fault", HOLDS)
def test_a_held_request_continues_when_released_and_others_get_409(
    holding: PaymentSandbox, pool: ThreadPoolExecutor, fault: PaymentFault
) -> None:
    request, paying = held(holding, pool, fault)
    assert len(holding.charges()) == (fault is PaymentFault.HOLD_AFTER)
    assert pay(holding) == "409 idempotency_key_in_use"
    assert pay(holding, "key-2") == "succeeded"
    assert not paying.done()
    request.released.set()
    assert paying.result(TIMEOUT) == pay(holding) == "succeeded"
    keys = sorted(charge["idempotency_key"] for charge in holding.charges())
    assert keys == ["key-1", "key-2"]


def sockets_on(port: int) -> list[object]:
    connections = psutil.Process().net_connections("tcp")
    return [one for one in connections if one.laddr and one.laddr.port == port]


@pytest.mark.parametrize("fault", [*HOLDS, PaymentFault.DELAY])
def test_no_thread_or_socket_is_left(fault: PaymentFault) -> None:
    before = set(threading.enumerate())
    faults = FaultRates(hold_seconds=LONG_SECONDS, delay_seconds=LONG_SECONDS)
    with ExitStack() as clients, payment_sandbox(faults) as sandbox:
        pool = clients.enter_context(ThreadPoolExecutor())
        idle = clients.enter_context(
            closing(http.client.HTTPConnection(LOCALHOST, port_of(sandbox)))
        )
        idle.request("GET", "/")
        idle.getresponse().read()
        sandbox.script(fault)
        paying = pool.submit(pay, sandbox)
        wait_until(
            "it waits",
            lambda: bool(sandbox.charges()) or not sandbox.held.empty(),
            timeout=TIMEOUT,
        )
        assert sockets_on(port_of(sandbox))
    assert set(threading.enumerate()) <= before
    assert sockets_on(port_of(sandbox)) == []
    assert paying.result() == "succeeded"
    assert len(sandbox.charges()) == 1
    assert sandbox.held.empty()
