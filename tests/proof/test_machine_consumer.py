"""A consumer, whatever comes how often and whatever fails: each event counts once, in its window.

The model: what the stream of the dedup table says was committed, and when. Every handler counts
what it does under the event's own id, and once more for all events of its kind.
"""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import Struct

from once.consumer import Consumer
from once.errors import PermanentError, Refusal
from once.handlers.transaction import Transaction
from once.schema import CLOCK_MARGIN_SECONDS, DeadLetter, Reason
from once.testing.events import cloud_event
from proof.shop.doubts import reason_of
from proof.world.queues import Message, Queue
from tests.proof.machine_functions import Function
from tests.proof.machines import PICKS, TROUBLES, Stage, Trouble, quick

WINDOW = 60 * 60
STOCK = 2
NONSENSE = "{"
LANES = "xy"
MOST_RECEIVES = 5
GIVEN_UP = (Reason.RETRIES_EXHAUSTED, Reason.NOT_TRIED, Reason.UNFINISHED)

EVENTS = [
    *[("e1", "adds", "a"), ("e2", "adds", "a"), ("e3", "adds", "b"), ("e4", "adds", "b")],
    *[("e5", "reads", "a"), ("e6", "reads", "b"), ("e7", "stumbles", "a"), ("e8", "stumbles", "b")],
    *[("s1", "sells", "a"), ("s2", "sells", "b"), ("s3", "sells", "a"), ("p", "poisons", "a")],
    *[("e1", "adds", "b"), ("s1", "reads", "a"), ("e7", "poisons", "a"), ("n", NONSENSE, "")],
]
"""The id of each, what it does, and to which item: three ids say two things."""
LATER = st.sampled_from([0, 0, 1, 200, WINDOW + CLOCK_MARGIN_SECONDS + 2])
CHOSEN = st.lists(st.integers(0, 30), min_size=1, max_size=10)


class Note(Struct, frozen=True):
    """What an event does, and to which item."""

    does: str
    item: str


class SoldOut(Refusal):
    """There is nothing left."""


class Notes(RuleBasedStateMachine):
    """A standard queue: any message is delivered at any time, also after it was deleted."""

    FIFO = False

    def __init__(self) -> None:
        super().__init__()
        self.dead = Queue("dead")
        name = "notes.fifo" if self.FIFO else "notes"
        self.queue = Queue(name, visibility=180, dead_letters=self.dead)
        self.stage = Stage({"counters": "name"}, [self.queue, self.dead])
        self.stage.tables.put("counters", {"name": {"S": "stock"}, "amount": {"N": str(STOCK)}})
        self.stumbling = True

    @initialize(
        events=st.lists(st.sampled_from(EVENTS), min_size=5, max_size=20),
        group_size=st.sampled_from([1, 2, 10]), threads=st.integers(1, 2),
    )  # fmt: skip
    def events_are_sent(
        self, events: list[tuple[str, str, str]], group_size: int, threads: int
    ) -> None:
        self.function = Function(
            self.stage, self._consumer(), self.queue, self._check_acknowledged,
            dedup_window_seconds=WINDOW, group_size=group_size, commit_threads=threads,
        )  # fmt: skip
        for name, does, item in events:
            event = cloud_event("noted", {"does": does, "item": item}, event_id=name)
            self._send(NONSENSE if does == NONSENSE else json.dumps(event))

    @precondition(lambda self: self.stage.running < 2 and self._deliverable())
    @rule(chosen=CHOSEN, new=st.booleans(), ill=st.booleans(), troubles=TROUBLES, picks=PICKS)
    def a_batch_is_delivered(
        self, *, chosen: list[int], new: bool, ill: bool, troubles: list[Trouble | None],
        picks: list[int],
    ) -> None:  # fmt: skip
        """To a function that is warm or new, and well or ill: then handlers may stumble."""
        if new:
            self.function.replace()
        self.stumbling = ill
        self.function.deliver(self._batch(chosen), troubles)
        self.time_passes(0, picks)

    @rule(seconds=LATER, picks=PICKS)
    def time_passes(self, seconds: int, picks: list[int]) -> None:
        self.stage.tasks.now += seconds
        for pick in picks:
            self.stage.turn(pick)

    @invariant()
    def what_is_committed_counts_once(self) -> None:
        committed = {event: len(times) for event, times in self._commits().items()}
        assert Counter(committed) == +self._sums(lambda event, _: event)

    @invariant()
    def nothing_is_committed_twice_in_a_window(self) -> None:
        for times in self._commits().values():
            for earlier, later in pairwise(times):
                assert later - earlier > WINDOW

    @invariant()
    def what_all_change_is_the_sum_of_what_each_has_changed(self) -> None:
        rows, done = self._amounts(), self._sums(lambda _, does: does)
        refused = rows.get("refused", 0)
        assert rows["stock"] == STOCK + refused - done["sells a"] - done["sells b"] >= 0
        assert not refused or rows["stock"] == 0
        for item in "ab":
            changed = sum(done[f"{does} {item}"] for does in ("adds", "reads", "stumbles"))
            assert rows.get(item, 0) == changed

    @invariant()
    def a_dead_letter_says_why(self) -> None:
        for letter in self.dead.ever:
            assert self._is_explained(letter), (reason_of(letter), letter.body)

    def teardown(self) -> None:
        self.stage.close(self._all_comes_to_its_end)

    def _all_comes_to_its_end(self) -> None:
        """Without trouble, everything is sent once more: all of it is settled at the first try."""
        self.stage.rest()
        if not self.queue.ever:
            return
        self.stumbling = False
        self.function.replace()
        for message in [*self.queue.ever]:
            self._send(message.body)
        fresh = self.queue.ever[len(self.queue.ever) // 2 :]
        for start in range(0, len(fresh), 10):
            self.function.deliver(fresh[start : start + 10])
            self.stage.rest()
        assert all(message.deleted for message in fresh)
        self.what_is_committed_counts_once()
        self.nothing_is_committed_twice_in_a_window()
        self.what_all_change_is_the_sum_of_what_each_has_changed()
        self.a_dead_letter_says_why()

    def _consumer(self) -> Consumer:
        consumer = Consumer("notes")
        counters = consumer.table("counters")
        one = {":one": 1}

        def add(name: str, tx: Transaction) -> None:
            tx.update(counters, {"name": name}, "ADD amount :one", one)

        @consumer.handles("noted", Note)
        def work(event: Note, tx: Transaction) -> None:
            match event.does:
                case "poisons":
                    raise PermanentError
                case "stumbles" if self.stumbling:
                    raise ValueError
                case "sells":
                    unmet: Any = {"condition": "amount >= :one", "otherwise": SoldOut()}
                    left = "SET amount = amount - :one"
                    tx.update(counters, {"name": "stock"}, left, one, **unmet)
                case "reads":
                    seen = tx.get(counters, {"name": event.item}) or {"amount": 0}
                    tx.put(counters, {"name": event.item, "amount": seen["amount"] + 1})
                case _:
                    add(event.item, tx)
            add(_name(tx.event.id, event.does, event.item), tx)

        @consumer.rejects(SoldOut)
        def refuse(event: Note, refusal: SoldOut, tx: Transaction) -> None:
            add("refused", tx)
            add(_name(tx.event.id, event.does, event.item), tx)

        return consumer

    def _send(self, body: str) -> None:
        """Send a message; on a FIFO queue, in the lane of its event."""
        group = {"DataType": "String", "StringValue": lane_of(id_of(body))}
        self.stage.queues.send(self.queue, body, {"group": group} if self.FIFO else {})

    def _deliverable(self) -> list[Message]:
        return self.queue.ever

    def _batch(self, chosen: list[int]) -> list[Message]:
        messages = self._deliverable()
        return [messages[n] for n in dict.fromkeys(pick % len(messages) for pick in chosen)]

    def _commits(self) -> dict[str, list[float]]:
        """When each event was committed, in the order of commits."""
        found = defaultdict(list)
        for record in self.stage.tables.stream:
            item = record["dynamodb"]["NewImage"]
            found[item["pk"]["S"].rpartition("#")[2]].append(int(item["committed_at"]["N"]) / 1000)
        return found

    def _amounts(self) -> dict[str, int]:
        return {name: int(row["amount"]) for name, row in self.stage.rows("counters").items()}

    def _sums(self, of: Any) -> Counter[str]:
        """What events have counted under their own ids, summed by event or by what they do."""
        sums: Counter[str] = Counter()
        for name, amount in self._amounts().items():
            event, _, does = name.partition(": ")
            if does:
                sums[of(event, does)] += amount
        return sums

    def _counted(self, body: str) -> bool:
        event = json.loads(body)
        return _name(event["id"], **event["data"]) in self.stage.tables.items["counters"]

    def _check_acknowledged(self, message: Message) -> None:
        dead = any(letter.body == message.body for letter in self.dead.ever)
        assert dead or self._counted(message.body), f"acknowledged in vain: {message.body}"

    def _is_explained(self, letter: Message) -> bool:
        if (reason := reason_of(letter)) in GIVEN_UP:
            return int(letter.attributes[DeadLetter.RECEIVE_COUNT]["StringValue"]) >= MOST_RECEIVES
        if letter.body == NONSENSE:
            return reason == Reason.UNPARSEABLE
        event = json.loads(letter.body)
        if reason == Reason.KEY_CONFLICT:
            others = {m.body for m in self.queue.ever if id_of(m.body) == event["id"]}
            return any(self._counted(body) for body in others - {letter.body})
        return reason == Reason.PERMANENT and event["data"]["does"] == "poisons"


def _name(event_id: str, does: str, item: str) -> str:
    return f"{event_id}: {does} {item}"


def id_of(body: str) -> str:
    return "nonsense" if body == NONSENSE else str(json.loads(body)["id"])


def lane_of(event_id: str) -> str:
    return LANES[ord(event_id[-1]) % 2]


TestNotes = Notes.TestCase
TestNotes.settings = quick(80)
