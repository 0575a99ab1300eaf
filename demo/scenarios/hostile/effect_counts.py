"""Effect counts: the effects of every message in tables, queues, card processor and mailboxes.

The module shares no code with the library: attribute names are spelt out again on purpose.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.audit.evidence import Item, number, text

SKU = "hostile-article"
"""The article of every order."""
_HOLD_SECONDS = 900

_DeadLetter = Mapping[str, Any]
_TableItems = Mapping[str, Item]


@dataclass(frozen=True, kw_only=True)
class SentMessages:
    """Names of the messages that were sent; each name is part of its message's body.

    Attributes:
        orders: healthy orders.
        counters: healthy counter events.
        refused: messages that no consumer can process; each must be dead-lettered.
        forged: forged events; none may leave a trace in a table.
    """

    orders: Collection[str]
    counters: Collection[str]
    refused: Collection[str]
    forged: Collection[str]


@dataclass(frozen=True, kw_only=True)
class FinalState:
    """State after the run.

    Attributes:
        tables: items by key, by logical table name.
        letters: dead letters and unrouted events.
        charged: number of charges by order.
        mailed: addresses that were written to.
    """

    tables: Mapping[str, _TableItems]
    letters: Sequence[_DeadLetter]
    charged: Counter[str]
    mailed: Collection[str]


def count_effects(sent: SentMessages, final: FinalState, stock: int) -> dict[str, int]:
    """Return the figures of the report, by their key; `stock` is that before the run."""
    tables, orders = final.tables, final.tables["orders"]
    reservations, customers = tables["reservations"], tables["customers"]
    amounts = {n: number(tables["counters"].get(n, {}), "amount") for n in sent.counters}
    committed = {name for name, amount in amounts.items() if amount > 0}
    times = list(amounts.values())
    for name in sent.orders:
        status = text(orders.get(name, {}), "status")
        if (status, text(reservations.get(name, {}), "status")) == ("paid", "sold"):
            committed.add(name)
        times.append(number(customers.get(f"customer-{name}", {}), "orders_placed"))
        times.append(final.charged[name])
    reserved = stock - number(tables["stock"][SKU], "available")
    excess = max(0, reserved - len(sent.orders))
    healthy = {*sent.orders, *sent.counters}
    words = {word for letter in final.letters for word in _words(letter["Body"])}
    dead, refused = healthy & words, words.intersection(sent.refused)
    # A name leaves a trace in a table, a charge or an e-mail.
    traces = {key for table in tables.values() for key in table} | {*final.charged}
    traces |= {address.partition("@")[0] for address in final.mailed}
    return {
        "healthy_sent": len(healthy),
        "healthy_committed": len(committed),
        "healthy_dead_lettered": len(dead),
        "refused_sent": len(sent.refused),
        "dead_lettered": len(final.letters),
        "forged_sent": len(sent.forged),
        "forged_accepted": len(traces.intersection(sent.forged)),
        "letters_without_reason": sum(not _reason(letter) for letter in final.letters),
        "lost": len(healthy - committed - dead) + len({*sent.refused} - refused),
        "doubled": sum(max(0, count - 1) for count in times) + excess,
    }


def read_dead_letters(sqs: Any, urls: Iterable[str]) -> Iterator[_DeadLetter]:
    """Read dead-letter queues to their end. The letters stay there, hidden for 15 minutes."""
    for url in urls:
        while batch := sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            VisibilityTimeout=_HOLD_SECONDS,
        ).get("Messages"):
            yield from batch


def _words(body: str) -> Iterator[str]:
    """Yield the words of the first 2,000 characters, within quotes or blanks; a bomb follows."""
    return (word for part in body[:2000].split('"') for word in part.split())


def _reason(letter: _DeadLetter) -> str:
    return str(letter.get("MessageAttributes", {}).get("once-reason", {}).get("StringValue", ""))
