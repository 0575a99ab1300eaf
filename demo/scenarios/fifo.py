"""Scenario `fifo`: movements of accounts through two FIFO consumers, with failures and kills.

In: a deployed shop with two more consumers, of which the second takes the events of the first. Out:
`reports/fifo.json`, and whether each account's movements were applied once and in order. Some
movements are sent again, some cannot be read. The audit shares no code with the library: it
compares what two tables hold for each account with what was sent.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Self

from demo.dropped_calls import Drops, dropping
from demo.kills import kill_at_random
from demo.report import console, report_figures, step
from demo.rounds import send_rounds
from demo.scenarios import drawn_seed
from demo.scenarios.apps import FIFO
from demo.shop import Shop, subscribers
from once import Producer
from once.events.outgoing import OutgoingEvent
from once.ops.aws.clients import batches

ACCOUNTS = 25
PER_ACCOUNT = 40
FAILING_SHARE = 0.05
UNREADABLE_SHARE = 0.01
RESENT_SHARE = 0.2
EVENT_TYPE = "account.moved"
_SOURCE = "/bank"

Applied = Mapping[str, Sequence[int]]
"""The numbers that a table holds for each account, in the order in which they were added."""

_NAMES = tuple(line.name for line in FIFO)
_TABLES = ("accounts", "statements")
_CALLS_A_KILL = 40
"""The functions' calls are the clock of the kills, so that a fast machine has as many."""
_MOST_KILLS = 12
"""Each kill lets the message groups of a batch wait for a visibility timeout."""
_MINIMUM = {"resent": 100, "failed_once": 20, "functions_killed": 8}
_LABELS = {
    "rounds": "rounds of traffic",
    "sent": "movements sent",
    "groups": "accounts, each a message group",
    "resent": "sent once more",
    "resent_within_window": "of these within the topic's five minutes",
    "failed_once": "movements whose first attempt fails",
    "functions_killed": "function processes killed",
    "dead_lettered": "dead letters, each unreadable",
    "seconds": "seconds",
    "out_of_order": "out of order",
    "lost": "lost",
    "doubled": "doubled",
    "invented": "applied but never sent",
    "missing_dead_letters": "unreadable, and not dead-lettered",
    "unexplained_dead_letters": "unexplained dead letters",
}


@dataclass(frozen=True, slots=True)
class Movement:
    """A movement: its account, its number there, and what is wrong with it."""

    account: str
    number: int
    fails: bool
    readable: bool

    @property
    def event_id(self) -> str:
        """The id of the event. The topic drops a second message with it, for five minutes."""
        return f"{self.account}-{self.number}"

    @property
    def body(self) -> str:
        """The CloudEvent. The data of an unreadable one has a number that is a text."""
        number = self.number if self.readable else str(self.number)
        return json.dumps(
            {
                "specversion": "1.0",
                "id": self.event_id,
                "source": _SOURCE,
                "type": EVENT_TYPE,
                "data": {"account_id": self.account, "number": number, "fails": self.fails},
            }
        )


@dataclass(frozen=True, slots=True)
class MovementPlan:
    """The movements to send, each account's in its order.

    Attributes:
        movements: all of them, once.
        within_window: those that are sent again with the same deduplication id.
        after_window: those that are sent again with another one. That is what follows when the
            topic has forgotten the first, after five minutes.
    """

    movements: Sequence[Movement]
    within_window: Sequence[Movement]
    after_window: Sequence[Movement]

    @classmethod
    def draw(cls, random: Random, first: int = 0) -> Self:
        """Return a plan, with the accounts interleaved, each numbered from `first` on."""
        names = [f"account-{n:02}" for n in range(ACCOUNTS) for _ in range(PER_ACCOUNT)]
        random.shuffle(names)
        counts = Counter(dict.fromkeys(names, first))
        movements = []
        for name in names:
            wrong = random.random()
            fails = wrong < FAILING_SHARE
            readable = fails or wrong >= FAILING_SHARE + UNREADABLE_SHARE
            movements.append(Movement(name, counts[name], fails=fails, readable=readable))
            counts[name] += 1
        resendable = [each for each in movements if each.readable]
        again = random.sample(resendable, int(len(movements) * RESENT_SHARE))
        return cls(movements, again[::2], again[1::2])

    @property
    def messages(self) -> list[tuple[Movement, str]]:
        """Every message with its deduplication id, in the order of sending."""
        return [
            *((each, each.event_id) for each in (*self.movements, *self.within_window)),
            *((each, f"{each.event_id}-again") for each in self.after_window),
        ]


def count_order(sent: Iterable[Movement], tables: Sequence[Applied]) -> dict[str, int]:
    """Compare what each consumer has applied with what was sent; return figures that must be 0."""
    expected: dict[str, list[int]] = {}
    for movement in sent:
        if movement.readable:
            expected.setdefault(movement.account, []).append(movement.number)
    return {
        "out_of_order": sum(len(_inversions(t.get(n, ()))) for t in tables for n in expected),
        "lost": sum(len({*expected[n]} - {*t.get(n, ())}) for t in tables for n in expected),
        "doubled": sum(len(list(t[n])) - len({*t[n]}) for t in tables for n in t),
        "invented": sum(len({*t[n]} - {*expected.get(n, ())}) for t in tables for n in t),
    }


def count_dead_letters(sent: Iterable[Movement], found: Iterable[str]) -> dict[str, int]:
    """Compare the event ids of dead letters with the movements that cannot be read."""
    expected = Counter(movement.event_id for movement in sent if not movement.readable)
    ids = Counter(found)
    return {
        "missing_dead_letters": (expected - ids).total(),
        "unexplained_dead_letters": (ids - expected).total(),
    }


def _inversions(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return each number that is followed by a smaller one, with that one."""
    return [(before, after) for before, after in pairwise(numbers) if after < before]


def fifo(shop: Shop, deploy_seconds: float) -> bool:
    """Send movements of accounts under failures, and write `reports/fifo.json`.

    Returns:
        Whether each was applied once and in its account's order, and enough faults occurred.
    """
    started = time.monotonic()
    seed = drawn_seed()
    console.print(f"seed {seed}")
    figures, counts = _play(shop, seed)
    counts["seconds"] = round(time.monotonic() - started + deploy_seconds, 1)
    return report_figures(
        "fifo",
        "FIFO under failures, from the tables",
        _LABELS,
        {**counts, **figures},
        figures,
        good="each movement was applied once and in its order",
        minimum=_MINIMUM,
    )


def _play(shop: Shop, seed: int) -> tuple[dict[str, int], dict[str, float]]:
    """Send rounds of movements while functions are killed, and audit the tables.

    Returns:
        The figures that must be 0, and the size of the run.
    """
    shop.shorten_visibility(*_NAMES)
    evidence = replace(shop.evidence(), subscribers=subscribers(FIFO))
    functions, random, every = shop.functions(*_NAMES), Random(seed), _CALLS_A_KILL
    topic = shop.deployment.ordered_ingress_topic_arn or ""  # the lines of this app make it
    producer = Producer(source=_SOURCE, topic_arn=topic, sns=shop.aws.client("sns"))

    def send(number: int) -> MovementPlan:
        plan = MovementPlan.draw(random, number * PER_ACCOUNT)
        with step(f"sending {len(plan.messages)} messages"):
            for some in batches(plan.messages):
                producer.publish(
                    # The id of the entry, of which the topic's deduplication id is made.
                    OutgoingEvent(unique, _SOURCE, EVENT_TYPE, movement.body, movement.account)
                    for movement, unique in some
                )
        shop.wait_until_processed(evidence, shop.queues(*_NAMES))
        return plan

    with (
        dropping(shop.aws, functions, Drops(seed, {})) as calls,
        kill_at_random(
            shop.aws, functions, every=every, clock=calls.total, most=_MOST_KILLS, seed=seed
        ) as killed,
    ):
        plans = send_rounds(send, lambda _: {"functions_killed": killed.total()}, _MINIMUM)
    movements = [movement for plan in plans for movement in plan.movements]
    within = sum(len(plan.within_window) for plan in plans)
    with step("auditing"):
        queues = [evidence.dead_letters[name] for name in _NAMES]
        dead = [json.loads(each["Body"])["id"] for url in queues for each in evidence.messages(url)]
        tables = [
            {
                item["account_id"]["S"]: [int(each["N"]) for each in item["applied"]["L"]]
                for item in evidence.items(name)
            }
            for name in _TABLES
        ]
    for name, applied in zip(_TABLES, tables, strict=True):
        for account, numbers in applied.items():
            for before, after in _inversions(numbers):
                console.print(f"[red]{name}, {account}: {after} after {before}")
    counts: dict[str, float] = {
        "rounds": len(plans),
        "sent": len(movements),
        "groups": len({each.account for each in movements}),
        "resent": within + sum(len(plan.after_window) for plan in plans),
        "resent_within_window": within,
        "failed_once": sum(each.fails for each in movements),
        "functions_killed": killed.total(),
        "dead_lettered": len(dead),
    }
    figures = {**count_order(movements, tables), **count_dead_letters(movements, dead)}
    return figures, counts
