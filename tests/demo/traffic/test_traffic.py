"""Sample traffic: its plan, the reasons of its bad bodies, and how it is sent."""

import json
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from demo.traffic.caller import Answer, Caller
from demo.traffic.plan import KINDS, Loss, OrderRequest, TrafficPlan, malformed_bodies, plan_traffic
from demo.traffic.publisher import COPIES, DISTINCT, send_batch, send_samples
from emulator.certificate import write_certificate
from emulator.connection import HOST
from functions.inventory import handler as inventory
from functions.orders import handler as orders
from once.ops.aws.clients import ATTEMPTS
from once.ops.errors import OpsError
from once.testing import FakeAws
from tests.once.support import facts

ALL_KINDS = {
    "repeats": 9,
    "altered": 3,
    "borrowed": 3,
    "duplicates": 9,
    "conflicts": 3,
    "malformed": 5,
    "refusals": 2,
    "declines": 2,
    "abandons": 2,
}

quick = settings(deadline=None, database=None, max_examples=60)


def traffic(*, count: int = 20, seed: int = 1, **numbers: int) -> TrafficPlan:
    return plan_traffic(count=count, seed=seed, **numbers)


def test_the_same_seed_plans_the_same_requests_in_the_same_order() -> None:
    one, other = (traffic(**ALL_KINDS) for _ in range(2))
    assert one == other
    assert one.first_requests == other.first_requests
    assert one.late_requests == other.late_requests


@st.composite
def plans(draw: st.DrawFn) -> TrafficPlan:
    count = draw(st.integers(1, 40))
    refusals = draw(st.integers(0, count))
    return plan_traffic(
        count=count,
        repeats=draw(st.integers(0, count)),
        altered=draw(st.integers(0, 30)),
        borrowed=draw(st.integers(0, 10)) if refusals else 0,
        duplicates=draw(st.integers(0, 10 * count)),
        conflicts=draw(st.integers(0, 30)),
        malformed=draw(st.integers(0, 40)),
        refusals=refusals,
        declines=(declines := draw(st.integers(0, count - refusals))),
        abandons=draw(st.integers(0, count - refusals - declines)),
        seed=draw(st.integers(0, 2**64)),
    )


@quick
@given(plans())
def test_requests_are_those_of_the_plan_and_callers_have_equal_keys_of_their_own(
    planned: TrafficPlan,
) -> None:
    first, late = planned.first_requests, planned.late_requests
    assert Counter(each.order for each in first) == Counter([*planned.orders, *planned.parallel])
    assert {each.order: each.losses for each in first if each.losses} == planned.lost
    own = [each for each in (*first, *late) if each.caller == each.order.caller]
    assert Counter(e.order for e in own if e.altered) == Counter(planned.altered)
    borrowed = [each for each in late if each.caller != each.order.caller]
    assert Counter(each.order for each in borrowed) == Counter([*planned.borrowed] * 2)
    # One command has one content, in whatever caller's name.
    commands = {(each.caller, each.order.key): set[str]() for each in (*first, *borrowed)}
    for each in (*own, *borrowed):
        if not each.altered:
            commands[each.caller, each.order.key].add(each.body)
    assert {len(bodies) for bodies in commands.values()} == {1}
    pairs = Counter(order.key for order in planned.orders)
    accepted = sum(
        not (order.refused or order.declined or order.abandoned) for order in planned.orders
    )
    assert sum(count == 2 for count in pairs.values()) == accepted // 2


EVENTS = Path(__file__).parents[3] / "events"
README = (EVENTS / "README.md").read_text()
REASONS = {
    "order-placed-conflict.json": "key-conflict",
    "malformed.json": "unparseable",
    "no-id.json": "no-key",
    "invalid-data.json": "invalid-data",
}
MALFORMED = {
    "not-json": "unparseable",
    "no-id": "no-key",
    "array": "invalid-event",
    "quantity-as-text": "invalid-data",
    "nested": "unparseable",
    "key-twice": "unparseable",
    "null-id": "no-key",
    "other-version": "invalid-event",
    "no-lines": "invalid-data",
    "not-a-number": "unparseable",
    "number-as-id": "invalid-event",
    "quantity-of-zero": "invalid-data",
    "lone-surrogate": "unparseable",
    "data-as-text": "invalid-data",
    "cut-off": "unparseable",
}
[ORDER] = plan_traffic(count=1, seed=1).orders

CONSUMERS: dict[str, Callable[[], FakeAws]] = {
    "orders": lambda: FakeAws(orders.consumer, {"orders": "order_id", "customers": "customer_id"}),
    "inventory": lambda: FakeAws(
        inventory.consumer,
        {"stock": "sku", "reservations": "order_id"},
        publishes=("stock.reserved", "stock.refused", "payment.overdue"),
        publishes_later=("payment.overdue",),
    ),
}


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], FakeAws]]:
    """Start an AWS in memory for a consumer."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(CONSUMERS[name]())


@pytest.fixture(params=CONSUMERS)
def aws(request: pytest.FixtureRequest, start: Callable[[str], FakeAws]) -> FakeAws:
    return start(request.param)


@pytest.fixture
def shelf(start: Callable[[str], FakeAws]) -> FakeAws:
    """The AWS of the inventory, with the sample articles in stock."""
    aws = start("inventory")
    for sku in ("green-tea", "teapot"):
        aws.given("stock", {"sku": sku, "available": 100})
    return aws


def sample(name: str) -> str:
    return (EVENTS / name).read_text()


def reasons(aws: FakeAws) -> dict[str, str]:
    """Return the reason of each dead letter, by its body."""
    return {letter["Body"]: facts(letter)["reason"] for letter in aws.dead_letters()}


def stock(aws: FakeAws) -> dict[str, int]:
    return {item["sku"]: int(item["available"]) for item in aws.items("stock")}


def test_bad_samples_are_dead_lettered_with_the_documented_reason(aws: FakeAws) -> None:
    aws.deliver(sample("order-placed.json"))
    assert aws.deliver(*map(sample, REASONS), fails=True) == {"batchItemFailures": []}
    assert reasons(aws) == {sample(name): reason for name, reason in REASONS.items()}
    for name, reason in REASONS.items():
        [line] = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
        assert f"`{reason}`" in line


def test_the_sample_refusal_moves_no_stock_and_is_no_dead_letter(shelf: FakeAws) -> None:
    shelf.deliver(sample("order-refused.json"))
    [reservation] = shelf.items("reservations")
    assert (reservation["status"], reservation["out_of_stock"]) == ("refused", "moon-dust")
    assert stock(shelf) == {"green-tea": 100, "teapot": 100}
    assert reasons(shelf) == {}


def test_each_kind_of_malformed_body_has_its_reason(aws: FakeAws) -> None:
    bodies = malformed_bodies(len(KINDS), ORDER.event)
    aws.deliver(*bodies[:10], fails=True)
    aws.deliver(*bodies[10:], fails=True)
    found = reasons(aws)
    assert {kind: found.get(body) for kind, body in zip(KINDS, bodies, strict=True)} == MALFORMED
    assert aws.items("dedup") == []


# Sending: a message that is not accepted fails it.


def test_a_message_that_is_not_accepted_fails_with_the_reason() -> None:
    refused = {"Id": "1", "Code": "InvalidParameter", "Message": "too long", "SenderFault": True}
    answer = {"Successful": [{"Id": "0"}], "Failed": [refused]}
    message = r"1 messages were not accepted \(InvalidParameter too long\)"
    with pytest.raises(OpsError, match=message):
        send_batch(lambda _: answer, [{}, {}])


# Callers: an answer is lost for good, and each attempt of a request has the same key and content.


class ShopApi(ThreadingHTTPServer):
    """An API with the answers of a list. It keeps each request that it has read."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__((HOST, 0), _Answering)
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.answers: list[tuple[int, str]] = []
        self.read: list[tuple[str, str, bytes]] = []

    def handle_error(self, *_: Any) -> None:
        """A caller that has closed its socket is no error."""


class _Answering(BaseHTTPRequestHandler):
    server: ShopApi

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        signature = self.headers["authorization"].partition("Credential=")[2]
        self.server.read.append((signature[:3], self.headers["idempotency-key"], body))
        status, answer = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.send_header("idempotent-replayed", "true")
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ShopApi]:
    certificate, key = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with ShopApi(tls) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def caller(shop: ShopApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.setattr("demo.traffic.caller.pause", lambda _: None)
    trust = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
    url = f"https://{HOST}:{shop.server_port}/_aws/execute-api/api"
    return Caller(url, Credentials("AKI", "secret"), "us-east-1", trust)


RUNNING = (409, '{"type": "https://docs/commands#in-progress"}')
EXISTS = (409, '{"type": "about:blank"}')


@pytest.mark.parametrize("last", [(202, '{"order_id": "o"}'), EXISTS, (422, "{}")])
@pytest.mark.parametrize("before", [[], [RUNNING], [(500, "{}"), (503, "{}"), (429, "{}")]])
def test_a_request_is_repeated_with_its_key_until_its_answer_holds(
    shop: ShopApi, caller: Caller, before: list[tuple[int, str]], last: tuple[int, str]
) -> None:
    shop.answers = [*before, last]
    exchange = caller.place(OrderRequest(ORDER, 0))
    assert exchange.attempts == len(before) + 1
    assert exchange.answer == Answer(*last[:1], "application/json", last[1], repeated=True)
    body = json.dumps(ORDER.data).encode()
    assert shop.read == [("AKI", f'"{ORDER.key}"', body)] * exchange.attempts


@pytest.mark.parametrize("loss", Loss)
def test_a_lost_answer_is_never_read_and_its_request_is_repeated(
    shop: ShopApi, caller: Caller, loss: Loss
) -> None:
    shop.answers = [(202, "one")] * 3
    request = OrderRequest(ORDER, 0, losses=(loss,))
    assert caller.post(request, loss) is None
    exchange = caller.place(request)
    assert (exchange.attempts, exchange.answer.body) == (2, "one")


def test_a_request_without_an_answer_that_holds_fails_with_the_last_status(
    shop: ShopApi, caller: Caller
) -> None:
    shop.answers = [(503, "{}")] * ATTEMPTS
    with pytest.raises(OpsError, match="had no answer that holds, the last one the status 503"):
        caller.place(OrderRequest(ORDER, 0))


SAMPLE = {
    "specversion": "1.0",
    "id": "sample-1",
    "source": "/samples",
    "type": "refund.requested",
    "data": {"refund_id": "refund", "amount": 2},
}


def deployed_consumer(name: str, *types: str) -> Any:
    return SimpleNamespace(name=name, identity=name, ingress_types=types, item_table=None)


@pytest.fixture
def deployment() -> Any:
    consumers = [
        deployed_consumer("orders", "order.placed"),
        deployed_consumer("refunds", "refund.requested"),
    ]
    return SimpleNamespace(
        consumers={each.name: each for each in consumers},
        is_ordered=lambda _: False,
        takers=lambda _: [],
        group_field=lambda _: None,
        ingress_topic=lambda _: "topic",
    )


def test_a_further_consumers_sample_is_sent_as_distinct_events_and_duplicates(
    deployment: Any, tmp_path: Path
) -> None:
    (tmp_path / "refund-requested.json").write_text(json.dumps(SAMPLE))
    (tmp_path / "malformed.json").write_text('{"type": "refund.requested", "data": 1}')
    calls: list[dict[str, Any]] = []

    def publish_batch(PublishBatchRequestEntries: list[dict[str, Any]], **_: Any) -> Any:  # noqa: N803
        calls.extend(PublishBatchRequestEntries)
        return {"Successful": PublishBatchRequestEntries}

    sns: Any = SimpleNamespace(publish_batch=publish_batch)
    [sample] = send_samples(sns, deployment, 7, tmp_path)
    assert sample == {"type": "refund.requested", "consumers": ["refunds"], "distinct": DISTINCT}
    assert len(calls) == DISTINCT * COPIES
    types = {call["MessageAttributes"]["type"]["StringValue"] for call in calls}
    assert types == {"refund.requested"}
    events = [json.loads(call["Message"]) for call in calls]
    assert len({event["id"] for event in events}) == DISTINCT
    assert len({event["data"]["refund_id"] for event in events}) == DISTINCT
    assert {event["data"]["amount"] for event in events} == {2}
