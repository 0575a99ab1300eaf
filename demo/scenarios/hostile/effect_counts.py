"""Counts the effects of every message in tables, queues, card processor and mailboxes.

Shares no code with the library: attribute names are spelt out again on purpose.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.scenarios.hostile.messages import SKU

_HOLD_SECONDS = 900

_DeadLetter = Mapping[str, Any]
_TableItems = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SentMessages:
    """The messages that were sent, by the names that stand in their bodies.

    `orders` and `counters` are healthy. `refused` are those that no consumer can process: each is
    due in a dead-letter queue. `forged` must leave no trace in any table.
    """

    orders: Collection[str]
    counters: Collection[str]
    refused: Collection[str]
    forged: Collection[str]


@dataclass(frozen=True, kw_only=True)
class FinalState:
    """The state in the end: tables by key, dead letters, orders charged, addresses mailed."""

    tables: Mapping[str, _TableItems]
    letters: Sequence[_DeadLetter]
    charged: Counter[str]
    mailed: Collection[str]


def count_effects(sent: SentMessages, found: FinalState, stock: int) -> dict[str, int]:
    """Return the figures of the report.

    Args:
        sent: what was sent.
        found: what is there.
        stock: how many pieces of the article there were.
    """
    healthy = {*sent.orders, *sent.counters}
    committed = {*_committed_orders(sent.orders, found), *_committed_counters(sent.counters, found)}
    bodies = [letter["Body"] for letter in found.letters]
    dead, refused = _named(healthy, bodies), _named(sent.refused, bodies)
    return {
        "healthy_sent": len(healthy),
        "healthy_committed": len(committed),
        "healthy_dead_lettered": len(dead),
        "refused_sent": len(sent.refused),
        "dead_lettered": len(found.letters),
        "forged_sent": len(sent.forged),
        "forged_accepted": len(_traces(found) & {*sent.forged}),
        "letters_without_reason": sum(not _reason(letter) for letter in found.letters),
        "lost": len(healthy - committed - dead) + len({*sent.refused} - refused),
        "doubled": _doubled(sent, found, stock),
    }


def read_dead_letters(sqs: Any, urls: Iterable[str]) -> Iterator[_DeadLetter]:
    """Read dead-letter queues to their end. The letters stay there, hidden for a while."""
    for url in urls:
        while batch := sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            VisibilityTimeout=_HOLD_SECONDS,
        ).get("Messages"):
            yield from batch


def read_table(dynamodb: Any, name: str, key: str) -> _TableItems:
    """Read a whole table, by its partition key."""
    pages = dynamodb.get_paginator("scan").paginate(TableName=name, ConsistentRead=True)
    return {item[key]["S"]: item for page in pages for item in page["Items"]}


def _committed_orders(names: Iterable[str], found: FinalState) -> Iterator[str]:
    for name in names:
        status = _text(found.tables["orders"].get(name, {}), "status")
        reserved = _text(found.tables["reservations"].get(name, {}), "status")
        if (status, reserved) == ("paid", "sold"):
            yield name


def _committed_counters(names: Iterable[str], found: FinalState) -> Iterator[str]:
    counters = found.tables["counters"]
    return (name for name in names if _number(counters.get(name, {}), "amount") > 0)


def _doubled(sent: SentMessages, found: FinalState, stock: int) -> int:
    counters, customers = found.tables["counters"], found.tables["customers"]
    amounts = [_number(counters.get(name, {}), "amount") for name in sent.counters]
    placed = [_number(customers.get(f"customer-{o}", {}), "orders_placed") for o in sent.orders]
    charges = [found.charged[name] for name in sent.orders]
    reserved = stock - _number(found.tables["stock"][SKU], "available")
    return sum(max(0, n - 1) for n in (*amounts, *placed, *charges)) + max(
        0, reserved - len(sent.orders)
    )


def _traces(found: FinalState) -> set[str]:
    """Return every name that left a trace in a table, a charge or an e-mail."""
    names = {key for table in found.tables.values() for key in table}
    return names | {*found.charged} | {address.partition("@")[0] for address in found.mailed}


def _named(names: Collection[str], bodies: Sequence[str]) -> set[str]:
    """Return the names that stand in a body, each between characters that are in no name."""
    wanted = {*names}
    return {word for body in bodies for word in _words(body) if word in wanted}


def _words(body: str) -> Iterator[str]:
    """The first kilobytes are enough: what is behind them is the bomb itself."""
    return (word for part in body[:2000].split('"') for word in part.split())


def _reason(letter: _DeadLetter) -> str:
    return str(letter.get("MessageAttributes", {}).get("once-reason", {}).get("StringValue", ""))


def _text(item: Mapping[str, Any], name: str) -> str:
    return str(item.get(name, {}).get("S", ""))


def _number(item: Mapping[str, Any], name: str) -> int:
    return int(item.get(name, {"N": "0"})["N"])
