"""The oracle of order: each account's numbers are booked as sent, and mirrored as booked."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from once.names import Reason
from proof.shop.ledger import Violation
from proof.shop.service import Service
from proof.shop.unknown_outcomes import reason_of
from proof.traffic import Entries
from proof.world.expressions import plain
from proof.world.messages import Message
from proof.world.queues import Queue

_TABLES = {"ledger": "booked", "mirror": "mirrored"}


class OrderLedger:
    """Checks the FIFO consumers against their traffic.

    An entry that was dead-lettered may come later than its successors, unless its group is blocked.
    """

    def __init__(self, service: Service, entries: Entries) -> None:
        self._service = service
        self._tables = service.world.tables
        self._entries = entries
        self._checked = -1
        self.premature: set[str] = set()  # no consumer has effects

    def check_acknowledgement(self, consumer: str, queue: Queue, message: Message) -> None:
        """Check that an acknowledged message had its effect, or was dead-lettered.

        Raises:
            Violation: it had neither.
        """
        del queue
        account, number = _entry(message.body)
        letters = self._service.places[consumer].dead_letters.ever
        if number in self._numbers(consumer).get(account, ()):
            return
        if all(_entry(letter.body) != (account, number) for letter in letters):
            raise Violation("acknowledged without effect", f"{consumer}: {message.body}")

    def check_state(self) -> None:
        """Check the oracles of every state: no number twice, and none before an earlier one.

        Raises:
            Violation: an oracle is violated.
        """
        if self._checked == self._tables.transactions:
            return
        self._checked = self._tables.transactions
        places = self._service.places.values()
        _check_letters(letter for place in places for letter in place.dead_letters.ever)
        sent = [number for number, _ in enumerate(self._entries.accounts)]
        booked, mirrored = (self._numbers(consumer) for consumer in _TABLES)
        for account, numbers in booked.items():
            self._check("ledger", sent, numbers)
            self._check("mirror", numbers, mirrored.get(account, []))

    def check_rest(self) -> None:
        """Check the oracles of a state at rest: every entry but a fatal one is in both tables.

        Raises:
            Violation: an entry is missing.
        """
        self.check_state()
        fatal = self._entries.fatal
        accounts = self._entries.accounts
        expected = Counter(one for number, one in enumerate(accounts) if number not in fatal)
        for consumer in _TABLES:
            found = {account: len(n) for account, n in self._numbers(consumer).items()}
            if found != expected:
                raise Violation("lost", f"{consumer}: {found} of {dict(expected)}")
        relayed = [letter.body for letter in self._service.relay_dead_letters.ever]
        if relayed:
            raise Violation("unexplained dead letter", str(relayed))

    def _check(self, consumer: str, before: Sequence[int], after: Sequence[int]) -> None:
        if doubled := [number for number, count in Counter(after).items() if count > 1]:
            raise Violation("doubled", f"{consumer}: {doubled}")
        late = set() if self._entries.blocks_group else {*self._late(consumer)}
        places = [before.index(number) for number in after if number not in late]
        if places != sorted(places):
            raise Violation("out of order", f"{consumer}: {after} after {before}")

    def _late(self, consumer: str) -> Iterator[int]:
        for letter in self._service.places[consumer].dead_letters.ever:
            yield _entry(letter.body)[1]

    def _numbers(self, consumer: str) -> dict[str, list[int]]:
        return {
            account: [int(plain(number)) for number in item["numbers"]["L"]]
            for account, item in self._tables.items[_TABLES[consumer]].items()
        }


def _check_letters(letters: Iterable[Message]) -> None:
    """Check that each letter has a reason, and that it is not only the place in its group."""
    for letter in letters:
        if reason_of(letter) in ("", Reason.NOT_TRIED):
            raise Violation("dead-lettered untried", f"{letter.body}: {reason_of(letter)!r}")


def _entry(body: str) -> tuple[str, int]:
    data = json.loads(body)["data"]
    return data["account"], data["number"]
