"""Effect counts: the effects of every message in tables, queues, card processor and mailboxes.

The module shares no code with the library: attribute names are spelt out again on purpose.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.audit.evidence import Item, number, text
from demo.scenarios.hostile.messages import SKU

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
    """Return the figures of the report, by their key.

    Args:
        sent: the messages.
        final: the state after the run.
        stock: initial stock of the article, in pieces.
    """
    healthy = {*sent.orders, *sent.counters}
    committed = {*_committed_orders(sent.orders, final), *_committed_counters(sent.counters, final)}
    bodies = [letter["Body"] for letter in final.letters]
    dead, refused = _named(healthy, bodies), _named(sent.refused, bodies)
    return {
        "healthy_sent": len(healthy),
        "healthy_committed": len(committed),
        "healthy_dead_lettered": len(dead),
        "refused_sent": len(sent.refused),
        "dead_lettered": len(final.letters),
        "forged_sent": len(sent.forged),
        "forged_accepted": len(_traces(final) & {*sent.forged}),
        "letters_without_reason": sum(not _reason(letter) for letter in final.letters),
        "lost": len(healthy - committed - dead) + len({*sent.refused} - refused),
        "doubled": _doubled(sent, final, stock),
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


def _committed_orders(names: Iterable[str], final: FinalState) -> Iterator[str]:
    for name in names:
        status = text(final.tables["orders"].get(name, {}), "status")
        reserved = text(final.tables["reservations"].get(name, {}), "status")
        if (status, reserved) == ("paid", "sold"):
            yield name


def _committed_counters(names: Iterable[str], final: FinalState) -> Iterator[str]:
    counters = final.tables["counters"]
    return (name for name in names if number(counters.get(name, {}), "amount") > 0)


def _doubled(sent: SentMessages, final: FinalState, stock: int) -> int:
    counters, customers = final.tables["counters"], final.tables["customers"]
    amounts = [number(counters.get(name, {}), "amount") for name in sent.counters]
    placed = [number(customers.get(f"customer-{o}", {}), "orders_placed") for o in sent.orders]
    charges = [final.charged[name] for name in sent.orders]
    reserved = stock - number(final.tables["stock"][SKU], "available")
    return sum(max(0, n - 1) for n in (*amounts, *placed, *charges)) + max(
        0, reserved - len(sent.orders)
    )


def _traces(final: FinalState) -> set[str]:
    """Return every name that left a trace in a table, a charge or an e-mail."""
    names = {key for table in final.tables.values() for key in table}
    return names | {*final.charged} | {address.partition("@")[0] for address in final.mailed}


def _named(names: Collection[str], bodies: Sequence[str]) -> set[str]:
    """Return the names that occur in a body, delimited by quotes or blanks."""
    wanted = {*names}
    return {word for body in bodies for word in _words(body) if word in wanted}


def _words(body: str) -> Iterator[str]:
    """Yield the words of the first 2,000 characters; a bomb follows them."""
    return (word for part in body[:2000].split('"') for word in part.split())


def _reason(letter: _DeadLetter) -> str:
    return str(letter.get("MessageAttributes", {}).get("once-reason", {}).get("StringValue", ""))
