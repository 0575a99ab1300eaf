"""Commands behind an HTTP API, with callers that repeat them, and a consumer of their events.

The clauses know the requests that were sent and the answers that were heard, and use nothing of the
library but names.
"""

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, get_args
from typing import Literal as OneOf

from boto3.dynamodb.conditions import Attr
from msgspec import Struct
from msgspec.structs import replace

from once.cdk import ConsumerProps, TableProps
from once.commands.answer import Answer, Problem
from once.commands.handlers import Commands
from once.commands.http_door import HttpDoor
from once.commands.runner import CommandRuntime
from once.commands.scope import Scope
from once.consumer import Consumer
from once.errors import Refusal
from once.names import COMMAND, SOURCE_PREFIX, Outcome, Record
from once.settings import CommandSettings, Settings, TableSettings
from once.transaction import Transaction
from proof.ledger import Scenario, Told, check
from proof.service import DEDUP, DEDUP_WINDOW_SECONDS, Function, Handle, Service, Violation
from proof.world.clients import clients
from proof.world.faults import Plan, PlatformFault
from proof.world.tasks import START, Process
from proof.world.world import World

_API, _CONSUMER = "checkout", "counter"
_ORDERS, _STOCK, _COUNTED = "orders", "stock", "counted"
_PLACED = "order.placed"
_SECONDS = 29
_SCARCE = {"rare": 1}
"""Initial stock; of all other articles there is enough."""
_LINE = ConsumerProps(_CONSUMER, events=(_PLACED,), tables=(TableProps(_COUNTED, "order_id"),))
_RETRIES = (0.5, 5, 60, 600, 3600)
_LATEST_SECONDS = 120
"""The time within which calls that are executed late have been."""
_OK, _CREATED, _REFUSED, _REUSED, _TOO_MANY = 200, 201, 409, 422, 429
_REPEATED = "idempotent-replayed"

api = Commands(_API)
_orders, _stock = api.table(_ORDERS), api.table(_STOCK)
_counter = Consumer(_CONSUMER)
_counted = _counter.table(_COUNTED)


class Order(Struct, frozen=True):
    """The data of the command and of its event."""

    order_id: str
    article: str = "common"


class SoldOut(Refusal):
    """There is none left of an article."""


@api.handles("place-order", Order)
def _place(command: Order, tx: Transaction) -> Answer:
    # No two runs have one answer, so that an answer is that of one commit.
    run = os.urandom(8).hex()
    if command.article == "picky":
        known = tx.get(_orders, {"order_id": command.order_id})
        if known is not None:
            raise RuntimeError("it is there already")
    values = {"run": run}
    tx.update(_orders, {"order_id": command.order_id}, set=values, add={"times": 1})
    if command.article in _SCARCE:
        left = Attr("left").gte(1)
        taken = {"article": command.article}
        tx.update(_stock, taken, add={"left": -1}, condition=left, otherwise=SoldOut())
    tx.publish(_PLACED, command)
    return Answer(
        {"order_id": command.order_id, "run": run}, status=_CREATED, headers={"x-run": run}
    )


@api.rejects(SoldOut)
def _reject(command: Order, refusal: SoldOut, tx: Transaction) -> Problem:
    del refusal, tx
    more = {"order_id": command.order_id, "run": os.urandom(8).hex()}
    return Problem("sold out", more=more)


@_counter.handles(_PLACED, Order)
def _count(event: Order, tx: Transaction) -> None:
    tx.update(_counted, {"order_id": event.order_id}, add={"times": 1})


Kind = OneOf["common", "rare", "picky", "conflict"]


class Story(Struct, frozen=True):
    """A key and its requests.

    Attributes:
        kind: the article of the order, of which `picky` is refused by its handler in a second run;
            or two orders under one key.
        shared: whether another caller uses the key for an order of its own.
        copies: how often each caller sends it at about one time.
    """

    kind: Kind = "common"
    shared: bool = False
    copies: int = 1


class Request:
    """What one caller sends under one key, until it hears an answer."""

    def __init__(self, caller: str, key: str, order: Order) -> None:
        self.caller, self.key, self.order = caller, key, order
        self.answers: list[Any] = []
        """The answers that count, each with the number of its round."""

    @property
    def place(self) -> tuple[str, str]:
        """The caller and the key, which have one effect."""
        return self.caller, self.key

    def event(self) -> dict[str, Any]:
        """Return the request as an HTTP API passes it on."""
        claims = {"authorizer": {"jwt": {"claims": {"sub": self.caller}}}}
        data = {"order_id": self.order.order_id, "article": self.order.article}
        return {
            "version": "2.0",
            "rawPath": "/orders",
            "headers": {"idempotency-key": f'"{self.key}"'},
            "requestContext": {"http": {"method": "POST"}, **claims},
            "body": json.dumps(data),
        }


class _Checkout(Service):
    """The function of the commands, with one consumer.

    Attributes:
        door: its function.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.world.tables.create(_ORDERS, "order_id")
        self.world.tables.create(_STOCK, "article")
        for article, left in _SCARCE.items():
            self.world.tables.put(_STOCK, {"article": {"S": article}, "left": {"N": str(left)}})
        self.door = Function(_API, _SECONDS, self._new_door, batch=1)

    def _new_door(self) -> Handle:
        settings = CommandSettings(
            consumer=_API,
            commands=tuple(api.handlers),
            dedup_table=DEDUP,
            tables={
                _ORDERS: TableSettings(_ORDERS, ("order_id",)),
                _STOCK: TableSettings(_STOCK, ("article",)),
            },
            dedup_window_seconds=DEDUP_WINDOW_SECONDS,
            publishes=(_PLACED,),
        )
        process = self.process_of(_API)
        runner = api.bound_to(CommandRuntime(settings, clients().dynamodb, **process))
        return HttpDoor(lambda: runner, {"POST /orders": "place-order"}, Scope.claim("sub"))

    def _publishes(self) -> dict[str, tuple[str, ...]]:
        return {**super()._publishes(), _API: (_PLACED,)}

    def _settings(self, line: ConsumerProps) -> Settings:
        return replace(super()._settings(line), sources={_PLACED: (SOURCE_PREFIX + _API,)})


class CommandsOfCallers(Scenario):
    """Callers that repeat each command until it is answered, and sometimes after that."""

    part = Story
    late_by = 2 * 60 * 60
    service: _Checkout

    def __init__(
        self, traffic: Sequence[Any], plan: Plan, seed: int, world: type[World] = World
    ) -> None:
        super().__init__(traffic, plan, seed, world)
        self._requests = [r for n, story in enumerate(self.traffic) for r in _requests(n, story)]
        self._quiet_from = float("inf")
        self._round = 0

    @classmethod
    def draw(cls, seed: int) -> tuple[Any, ...]:
        """Return random stories."""
        draw = random.Random(f"commands {seed}")
        return tuple(
            Story(kind, shared=draw.random() < 0.4, copies=draw.choice([1, 1, 2, 3]))
            for kind in draw.choices(get_args(Kind), k=draw.randint(1, 3))
        )

    def consumers(self) -> Mapping[ConsumerProps, Consumer]:
        """Return the consumer of the events."""
        return {_LINE: _counter}

    def deployed(self, plan: Plan, seed: int, world: type[World]) -> Service:
        """Return the function and its consumer."""
        return _Checkout(plan, seed, self.consumers(), world)

    def begin(self) -> None:
        """Let the callers begin, some of them in parallel."""
        for story_requests in self._by_key().values():
            start = self.world.random.choice((0, 0, 1, 40))
            for request in story_requests:
                for _ in range(self.traffic[int(request.key)].copies):
                    later = start + self.world.random.choice((0, 0, 0.01, 20))
                    self._after(later, partial(self._send, request))

    def recover(self) -> None:
        """Let the callers send again what was not answered."""
        self._quiet_from = self.world.tasks.now + _LATEST_SECONDS
        self._send_all()

    def repeat(self) -> Iterator[None]:
        """Send everything again at the end of the window, and once more after it."""
        self.to_the_end_of_the_window()
        self._send_all(answered=True)
        yield
        self.world.tasks.now = START + 2 * DEDUP_WINDOW_SECONDS
        for pk in [*self.world.tables.items[DEDUP]]:
            self.world.tables.remove(DEDUP, pk)
        self._round += 1
        self._send_all(answered=True)
        yield

    def _send_all(self, *, answered: bool = False) -> None:
        for request in self._requests:
            is_known = any(number == self._round for number, *_ in request.answers)
            is_picky = request.order.article == "picky" and self._round
            if (answered or not is_known) and not is_picky:
                self._send(request)

    def _by_key(self) -> dict[str, list[Request]]:
        found: defaultdict[str, list[Request]] = defaultdict(list)
        for request in self._requests:
            found[request.key].append(request)
        return found

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self.world.tasks.at(self.world.tasks.now + seconds, action)

    def _send(self, request: Request, attempt: int = 0) -> None:
        """Send a request until it is answered, and sometimes once more."""

        def heard(answer: Any) -> None:
            if not _is_final(answer) and attempt < len(_RETRIES):
                self._after(_RETRIES[attempt], partial(self._send, request, attempt + 1))
            elif _is_final(answer) and attempt < len(_RETRIES) and self.world.random.random() < 0.4:
                again = self.world.random.choice((0.01, 1, 3600))
                self._after(again, partial(self._send, request, len(_RETRIES)))

        began, door, plan = self.world.tasks.now, self.service.door, self.world.plan
        if plan.platform(PlatformFault.THROTTLED, door.name):
            heard({"statusCode": _TOO_MANY})
            return

        def work(process: Process) -> None:
            answer = None
            try:
                found = door.invoke(process, request.event(), self.world.tasks.clock)
                self._check_answer(request, found, began)
                if not plan.platform(PlatformFault.UNANSWERED, door.name):
                    answer = found
            finally:
                heard(answer)

        self.service.start("", door.name, door.seconds, work)

    def has_effect(self, consumer: str, body: str) -> bool:
        """Tell whether the consumer has counted an order."""
        del consumer
        return self._times(_COUNTED, self.subject_of(body)) > 0

    def owed(self) -> set[Told]:
        """Return an event for each order."""
        return {(_PLACED, order_id) for order_id in self.rows(_ORDERS)}

    def check_state(self) -> None:
        """Check that each caller and key has at most one effect a round. Raises Violation."""
        for place, orders in self._orders().items():
            times = sum(self._times(_ORDERS, order_id) for order_id in orders)
            if times > self._round + 1:
                raise Violation("more than one effect for a key", f"{place}: {times} times")
        left = [int(self.row(_STOCK, article)["left"]) for article in _SCARCE]
        check("more sold than there is", [number for number in left if number < 0])

    def check_rest(self) -> None:
        """Check that every request is answered, and every order counted. Raises Violation."""
        for request in self._requests:
            if not request.answers:
                raise Violation("never answered", f"{request.place}: {request.order}")
        orders = self.rows(_ORDERS)
        for order_id in orders:
            # The events of a second round have the ids of the first one's.
            if not 1 <= self._times(_COUNTED, order_id) <= self._times(_ORDERS, order_id):
                raise Violation("lost or doubled", order_id)
        accepted = Counter(
            item[Record.OUTCOME]["S"]
            for pk, item in self.world.tables.items[DEDUP].items()
            if pk.startswith(f"{_API}#{COMMAND}#")
        )
        keys = {request.place for request in self._requests if request.answers}
        if not self._round and accepted.total() not in (0, len(keys)):
            raise Violation("records", f"{accepted} for {len(keys)} keys")
        if not self._round and accepted[Outcome.ACCEPTED] not in (0, len(orders)):
            raise Violation("records", f"{accepted} for {len(orders)} orders")

    def _orders(self) -> dict[tuple[str, str], set[str]]:
        found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for request in self._requests:
            found[request.place].add(request.order.order_id)
        return found

    def _times(self, table: str, order_id: str) -> int:
        return int(self.row(table, order_id).get("times", 0))

    def _check_answer(self, request: Request, answer: Any, began: float) -> None:
        """Check an answer when the function gives it, whether it is heard or not."""
        status, members = answer["statusCode"], json.loads(answer["body"])
        if status // 100 == 5 or not _is_final(answer):
            if began > self._quiet_from:
                raise Violation("failed without a fault", f"{request.place}: {answer}")
            return
        rivals = [each for each in self._requests if each.place == request.place]
        if status == _REUSED:
            known = [r for r in rivals if r is not request and r.order != request.order]
            if not known:
                raise Violation("refused as reused", f"{request.place}: {request.order}")
            request.answers.append((self._round, status))
            return
        if members["order_id"] != request.order.order_id:
            raise Violation("a foreign answer", f"{request.place}: {answer}")
        headers = {name: v for name, v in answer["headers"].items() if name != _REPEATED}
        found = (self._round, status, answer["body"], sorted(headers.items()))
        for rival in rivals:
            others = [a for a in rival.answers if a[0] == self._round and a[1] != _REUSED]
            check("answers differ", [a for a in others if a != found])
        row = self.row(_ORDERS, request.order.order_id)
        if status == _CREATED and row.get("run") != members["run"]:
            raise Violation("an answer without its commit", f"{request.place}: {answer}")
        kept = [json.dumps(item) for item in self.world.tables.items[DEDUP].values()]
        if not any(members["run"] in text for text in kept):
            raise Violation("an answer without its record", f"{request.place}: {answer}")
        request.answers.append(found)


def _requests(number: int, story: Story) -> Iterator[Request]:
    """Yield the requests of a story, whose key is its number."""
    key, article = str(number), "common" if story.kind == "conflict" else story.kind
    yield Request("alice", key, Order(f"{number}-alice", article))
    if story.kind == "conflict":
        yield Request("alice", key, Order(f"{number}-other", article))
    if story.shared:
        yield Request("bob", key, Order(f"{number}-bob", article))


def _is_final(answer: Any) -> bool:
    """Tell whether a caller does not send its request again."""
    if answer is None or answer["statusCode"] in (_TOO_MANY, *range(500, 600)):
        return False
    # A conflict of the library has another type: the request may be sent again.
    return bool(
        answer["statusCode"] != _REFUSED or json.loads(answer["body"])["type"] == "about:blank"
    )
