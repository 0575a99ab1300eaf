"""The sandbox's server: concurrent and held requests, lost clients, and its end."""

import http.client
import json
import socket
import threading
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
from tests.demo.payment_sandbox.customer import PARAMETERS, customer_of

LOCALHOST = "127.0.0.1"
LONG_SECONDS = 3600.0
TIMEOUT = 20
BODY = b"amount=700&currency=eur&confirm=true&payment_method=pm_card_visa&metadata[order_id]=7"
BOOK = "/sandbox/charges"
HOLDS = [PaymentFault.HOLD_BEFORE, PaymentFault.HOLD_AFTER]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def sandbox(pool: ThreadPoolExecutor) -> Iterator[PaymentSandbox]:
    # The sandbox must end first: threads of the pool may wait for it.
    with payment_sandbox(FaultRates(hold_seconds=LONG_SECONDS)) as running:
        yield running


def port_of(sandbox: PaymentSandbox) -> int:
    port = urlsplit(sandbox.url).port
    assert port is not None
    return port


def pay(sandbox: PaymentSandbox, key: str = "key-1") -> str:
    """Pay over a new connection, and return the status or the error."""
    with customer_of(sandbox, timeout=TIMEOUT) as customer:
        try:
            return customer.pay(key).status
        except stripe.StripeError as error:
            return f"{error.http_status} {error.error and error.error.code}"


def sent(sandbox: PaymentSandbox, body: bytes = BODY) -> socket.socket:
    """Send a charge request, and return its connection without waiting for an answer."""
    head = (
        "POST /v1/payment_intents HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer sk\r\n"
        f"Content-Length: {len(BODY)}\r\n\r\n"
    )
    connection = socket.create_connection((LOCALHOST, port_of(sandbox)), TIMEOUT)
    connection.sendall(head.encode() + body)
    return connection


def held(
    sandbox: PaymentSandbox, pool: ThreadPoolExecutor, fault: PaymentFault
) -> tuple[HeldRequest, Future[str]]:
    sandbox.script(fault)
    paying = pool.submit(pay, sandbox)
    return sandbox.held.get(timeout=TIMEOUT), paying


@pytest.mark.parametrize("fault", HOLDS)
def test_a_held_request_continues_when_released(
    sandbox: PaymentSandbox, pool: ThreadPoolExecutor, fault: PaymentFault
) -> None:
    request, paying = held(sandbox, pool, fault)
    assert request.charged is (fault is PaymentFault.HOLD_AFTER)
    assert len(sandbox.charges()) == request.charged
    assert request.metadata == PARAMETERS["metadata"]
    assert not paying.done()
    request.release()
    assert paying.result(TIMEOUT) == "succeeded"
    assert len(sandbox.charges()) == 1


@pytest.mark.parametrize("fault", HOLDS)
def test_a_second_request_with_an_executing_key_gets_409(
    sandbox: PaymentSandbox, pool: ThreadPoolExecutor, fault: PaymentFault
) -> None:
    request, paying = held(sandbox, pool, fault)
    assert pay(sandbox) == "409 idempotency_key_in_use"
    assert pay(sandbox, "key-2") == "succeeded"
    request.release()
    assert paying.result(TIMEOUT) == pay(sandbox) == "succeeded"
    keys = sorted(charge["idempotency_key"] for charge in sandbox.charges())
    assert keys == ["key-1", "key-2"]


def test_concurrent_requests_with_one_key_charge_once(
    sandbox: PaymentSandbox, pool: ThreadPoolExecutor
) -> None:
    barrier = threading.Barrier(8)

    def pay_together(key: str) -> str:
        barrier.wait(TIMEOUT)
        return pay(sandbox, key)

    for number in range(5):
        seen = set(pool.map(pay_together, [f"key-{number}"] * 8))
        assert "succeeded" in seen <= {"succeeded", "409 idempotency_key_in_use"}
        assert len(sandbox.charges()) == number + 1


def test_a_hold_ends_after_its_time(pool: ThreadPoolExecutor) -> None:
    with payment_sandbox(FaultRates(hold_seconds=0.01)) as sandbox:
        sandbox.script(PaymentFault.HOLD_BEFORE)
        assert pay(sandbox) == "succeeded"
        assert sandbox.held.empty()


@pytest.mark.parametrize("fault", HOLDS)
def test_a_charge_whose_client_has_died_is_made(
    fault: PaymentFault, capfd: pytest.CaptureFixture[str]
) -> None:
    with payment_sandbox(FaultRates(hold_seconds=LONG_SECONDS)) as sandbox:
        sandbox.script(fault)
        with sent(sandbox) as connection:
            request = sandbox.held.get(timeout=TIMEOUT)
            assert request.client_port == connection.getsockname()[1]
        request.release()
    assert request.metadata == {"order_id": "7"}
    assert [charge["metadata"] for charge in sandbox.charges()] == [{"order_id": "7"}]
    assert capfd.readouterr().err == ""


def test_an_incomplete_request_charges_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with payment_sandbox() as sandbox:
        with sent(sandbox, BODY[:-1]) as connection:
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        assert sandbox.charges() == []
    assert capfd.readouterr().err == ""


def test_a_connection_is_kept_alive(sandbox: PaymentSandbox) -> None:
    with closing(http.client.HTTPConnection(LOCALHOST, port_of(sandbox))) as connection:
        seen = []
        for path in (BOOK, "/unknown", BOOK):
            connection.request("GET", path)
            answer = connection.getresponse()
            seen.append((answer.status, json.load(answer) == [], connection.sock))
    kept = seen[0][2]
    assert kept is not None
    assert seen == [(200, True, kept), (404, False, kept), (200, True, kept)]


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
        idle.request("GET", BOOK)
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


def test_no_thread_or_socket_is_left_after_a_failure() -> None:
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="on purpose"), payment_sandbox() as sandbox:
        raise RuntimeError("on purpose")
    assert set(threading.enumerate()) <= before
    assert sockets_on(port_of(sandbox)) == []


def test_two_sandboxes_are_independent() -> None:
    with payment_sandbox() as one, payment_sandbox() as other:
        assert one.url != other.url
        assert pay(one) == pay(other) == "succeeded"
        assert len(one.charges()) == len(other.charges()) == 1
