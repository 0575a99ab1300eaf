"""Machine of a consumer: under any deliveries and faults, each event counts once in its window.

On a FIFO queue, commits keep the order of a message group as well.

The model is the stream of the dedup table: the commits of each event, and their times. Each handler
counts under its event's id, and under a key that several events share.
"""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec import Struct

from once.consumer import Consumer
from once.errors import PermanentError, Refusal
from once.names import CLOCK_MARGIN_SECONDS, DeadLetter, Reason
from once.testing.events import cloud_event
from once.transaction import Transaction
from proof.world.queues import Message, Queue
from tests.proof.machines import FAULTS, PICKS, Faults, Function, Machine, Stage, quick

WINDOW = 60 * 60
STOCK = 2
NONSENSE = "{"
GROUPS = "xy"
MAX_RECEIVES = 5
AFTER_RETRIES = (Reason.RETRIES_EXHAUSTED, Reason.NOT_TRIED, Reason.UNFINISHED)

EVENTS = [
    *[("e1", "adds", "a"), ("e2", "adds", "a"), ("e3", "adds", "b"), ("e4", "adds", "b")],
    *[("e5", "reads", "a"), ("e6", "reads", "b"), ("e7", "fails", "a"), ("e8", "fails", "b")],
    *[("s1", "sells", "a"), ("s2", "sells", "b"), ("s3", "sells", "a"), ("p", "poisons", "a")],
    *[("e1", "adds", "b"), ("s1", "reads", "a"), ("e7", "poisons", "a"), ("n", NONSENSE, "")],
]
"""The id, action and item of each event; three ids have two contents."""
LATER = st.sampled_from([0, 0, 1, 200, WINDOW + CLOCK_MARGIN_SECONDS + 2])
CHOSEN = st.lists(st.integers(0, 30), min_size=1, max_size=10)


class Note(Struct, frozen=True):
    """The data of an event."""

    does: str
    item: str


class SoldOut(Refusal): ...


class Notes(Machine):
    """A standard queue: any message may be delivered at any time, even after its deletion."""

    FIFO = False

    def __init__(self) -> None:
        super().__init__()
        self.dead = Queue("dead")
        name = "notes.fifo" if self.FIFO else "notes"
        self.queue = Queue(name, visibility=180, dead_letters=self.dead)
        self.stage = Stage({"counters": "name"}, [self.queue, self.dead])
        self.stage.tables.put("counters", {"name": {"S": "stock"}, "amount": {"N": str(STOCK)}})
        self.is_failing = True

    @initialize(
        events=st.lists(st.sampled_from(EVENTS), min_size=5, max_size=20),
        group_size=st.sampled_from([1, 2, 10]), threads=st.integers(1, 2),
    )  # fmt: skip
    def send_events(
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
    @rule(chosen=CHOSEN, new=st.booleans(), failing=st.booleans(), faults=FAULTS, picks=PICKS)
    def deliver_a_batch(
        self, *, chosen: list[int], new: bool, failing: bool, faults: Faults, picks: list[int]
    ) -> None:
        """Invoke a warm or a new process; the handler of some events may be failing."""
        if new:
            self.function.replace()
        self.is_failing = failing
        self.function.deliver(self._batch(chosen), faults)
        self.advance(picks)

    @rule(seconds=LATER, picks=PICKS)
    def let_time_pass(self, seconds: int, picks: list[int]) -> None:
        self.advance(picks, seconds)

    @invariant()
    def a_committed_event_counts_once(self) -> None:
        committed = {event: len(times) for event, times in self._commits().items()}
        assert Counter(committed) == +self._sums(lambda event, _: event)

    @invariant()
    def no_event_is_committed_twice_in_a_window(self) -> None:
        for times in self._commits().values():
            for earlier, later in pairwise(times):
                assert later - earlier > WINDOW

    @invariant()
    def shared_items_are_the_sum_of_all_events(self) -> None:
        rows, done = self._amounts(), self._sums(lambda _, does: does)
        refused = rows.get("refused", 0)
        assert rows["stock"] == STOCK + refused - done["sells a"] - done["sells b"] >= 0
        assert not refused or rows["stock"] == 0
        for item in "ab":
            changed = sum(done[f"{does} {item}"] for does in ("adds", "reads", "fails"))
            assert rows.get(item, 0) == changed

    @invariant()
    def a_dead_letter_has_its_reason(self) -> None:
        for letter in self.dead.ever:
            assert self._is_explained(letter), (letter.reason, letter.body)

    def recover(self) -> None:
        """Without faults, a second copy of each message is acknowledged at its first receive."""
        if not self.queue.ever:
            return
        self.is_failing = False
        self.function.replace()
        for message in [*self.queue.ever]:
            self._send(message.body)
        fresh = self.queue.ever[len(self.queue.ever) // 2 :]
        for start in range(0, len(fresh), 10):
            self.function.deliver(fresh[start : start + 10])
            self.stage.rest()
        assert all(message.deleted for message in fresh)

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
                case "fails" if self.is_failing:
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
        """Send a message; on a FIFO queue, in the message group of its event."""
        grouping = {
            "MessageGroupId": group_of(id_of(body)),
            "MessageDeduplicationId": str(len(self.queue.ever)),
        }
        self.stage.queues.send(self.queue, body, {}, grouping if self.FIFO else {})

    def _deliverable(self) -> list[Message]:
        return self.queue.ever

    def _batch(self, chosen: list[int]) -> list[Message]:
        messages = self._deliverable()
        return [messages[n] for n in dict.fromkeys(pick % len(messages) for pick in chosen)]

    def _commits(self) -> dict[str, list[float]]:
        """Return the times of each event's commits, in the order of all commits."""
        found = defaultdict(list)
        for record in self.stage.tables.stream:
            item = record["dynamodb"]["NewImage"]
            found[item["pk"]["S"].rpartition("#")[2]].append(int(item["committed_at"]["N"]) / 1000)
        return found

    def _amounts(self) -> dict[str, int]:
        return {name: int(row["amount"]) for name, row in self.stage.rows("counters").items()}

    def _sums(self, of: Any) -> Counter[str]:
        """Return the counts under the events' own ids, summed by event or by action."""
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
        is_dead = message.body in [letter.body for letter in self.dead.ever]
        assert is_dead or self._counted(message.body), f"without effect: {message.body}"

    def _is_explained(self, letter: Message) -> bool:
        if (reason := letter.reason) in AFTER_RETRIES:
            return int(letter.attributes[DeadLetter.RECEIVE_COUNT]["StringValue"]) >= MAX_RECEIVES
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


def group_of(event_id: str) -> str:
    return GROUPS[ord(event_id[-1]) % 2]


TestNotes = Notes.TestCase
TestNotes.settings = quick(80)


class FifoNotes(Notes):
    """A FIFO queue: a message group is delivered in order, and not while one is in flight."""

    FIFO = True

    @invariant()
    def a_message_group_is_committed_in_order(self) -> None:
        """Except events with a dead letter: the ones after them need not wait."""
        dead = {id_of(letter.body) for letter in self.dead.ever}
        sent = dict.fromkeys(id_of(message.body) for message in self.queue.ever)
        for group in GROUPS:
            expected = [event for event in sent if event not in dead and group_of(event) == group]
            committed = [event for event in self._commits() if event in expected]
            assert committed == [event for event in expected if event in committed]

    def _deliverable(self) -> list[Message]:
        return self.queue.deliverable(self.stage.tasks.now)

    def _batch(self, chosen: list[int]) -> list[Message]:
        return self._deliverable()[: len(chosen)]


TestFifoNotes = FifoNotes.TestCase
TestFifoNotes.settings = quick(80)
