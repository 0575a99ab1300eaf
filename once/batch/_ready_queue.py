"""Ready queue: the order in which the messages of one batch are read and run."""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from once.batch._report import Finished
from once.batch.message import Message
from once.errors import Blocked, KeyConflict
from once.intake.reader import DecodedEvent, Disposition, MessageResult


class _Rank(IntEnum):
    """Position of a message in the queue; those of one rank keep the order of the batch."""

    LAST_CHANCE = 0
    """Read alone, and first: another message that ends the function, or takes all of its time,
    would have it dead-lettered without an attempt."""
    ORDINARY = 1
    """Read together, since they commit together."""
    OFTEN_RECEIVED = 2
    """Read alone, and last: it may have ended the function in earlier deliveries."""


class ReadyQueue:
    """Keeps the order of each FIFO group, and lets one message of a key run at a time.

    The batch is in the order of its records; `read` reads messages that run together.
    """

    def __init__(
        self, messages: Sequence[Message], read: Callable[[Sequence[Message]], None]
    ) -> None:
        self._read = read
        first: dict[str, _Rank] = {}  # a FIFO group has one rank, or its order would be lost
        for message in messages:
            if message.delivery.ordered_group is not None:
                first.setdefault(message.delivery.ordered_group, _rank(message))
        self._ranks = {m: first.get(m.delivery.ordered_group or "", _rank(m)) for m in messages}
        self._waiting = sorted(messages, key=self._ranks.__getitem__)
        self._committed: dict[str, str] = {}
        self._blocked: set[str] = set()

    @property
    def waiting(self) -> list[Message]:
        """The messages that are not finished."""
        return [message for message in self._waiting if message.finished is None]

    def choose(self, count: int) -> list[tuple[Message, MessageResult | None]]:
        """Return the messages that run now: `count` at most, and at least one if none is calling.

        Each has a result beside it if an earlier message of the batch decides it. Messages stay in
        the queue until they are finished.
        """
        for message in self._waiting:
            if message.finished is not None:
                self._note(message.finished)
        self._waiting = self.waiting
        # A message whose effect is done commits before another effect begins.
        done = [m for m in self._waiting if m.effect is not None and m.call is None]
        calling = [self._ranks[message] for message in self._waiting if message.call is not None]
        return self._decided(done or self._startable(count, calling))

    def choose_called(self) -> list[tuple[Message, MessageResult | None]]:
        """Return the messages whose call of an effect has ended, as `choose` does."""
        return self._decided([m for m in self._waiting if m.call is not None and m.call.done()])

    def _decided(self, messages: Sequence[Message]) -> list[tuple[Message, MessageResult | None]]:
        return [(message, self._decision(message)) for message in messages]

    def _note(self, message: Finished) -> None:
        """Record the result of a message for later messages of its group or key."""
        group, event = message.delivery.ordered_group, message.delivery.decoded
        if message.disposition is Disposition.RETRIED and group is not None:
            self._blocked.add(group)
        if isinstance(message.result, Disposition) and isinstance(event, DecodedEvent):
            self._committed[event.identity.pk] = event.identity.fingerprint

    def _startable(self, count: int, calling: Sequence[_Rank]) -> list[Message]:
        """Return messages without contention first: that of the others may end meanwhile.

        Beside calls of other messages, of these ranks, only ordinary ones may begin.
        """
        if calling and (count < 1 or any(rank is not _Rank.ORDINARY for rank in calling)):
            return []
        # A last chance that had contention runs again among the ordinary messages.
        for message in self._free():
            if self._ranks[message] is not _Rank.LAST_CHANCE:
                break
            if not message.attempts:
                return [] if calling else [message]
        self._read_ordinary()
        fresh: list[Message] = []
        contended: list[Message] = []
        for message in self._free():
            if self._ranks[message] is _Rank.OFTEN_RECEIVED:
                break
            (contended if message.attempts else fresh).append(message)
            if len(fresh) == count:
                break
        # One that has a group to itself may use up the round, and keep the others from theirs.
        contended.sort(key=lambda message: message.attempts)
        if chosen := fresh or contended[:count]:
            return chosen
        return [] if calling else [_either_end(list(self._free()))]

    def _read_ordinary(self) -> None:
        """Read the messages that need not be read alone: their keys decide which may run now."""
        if len(self._waiting) == 1:
            return  # it is read when it begins
        unread = [
            message
            for message in self._waiting
            if message.delivery.decoded is None and self._ranks[message] is _Rank.ORDINARY
        ]
        if unread:
            self._read(unread)

    def _free(self) -> Iterator[Message]:
        """Yield the first waiting message of each group and key, if it is not being called for."""
        keys: set[str] = set()
        groups: set[str] = set()
        for message in self._waiting:
            pk, group = message.delivery.pk, message.delivery.ordered_group
            if pk not in keys and group not in groups and message.call is None:
                yield message
            if pk is not None:
                keys.add(pk)
            if group is not None:
                groups.add(group)

    def _decision(self, message: Message) -> MessageResult | None:
        """Return the result that follows from an earlier message of the batch, if any."""
        delivery = message.delivery
        if delivery.ordered_group in self._blocked:
            return Blocked("an earlier message of its group failed")
        if delivery.pk not in self._committed or not isinstance(delivery.decoded, DecodedEvent):
            return None
        identity = delivery.decoded.identity
        if self._committed[identity.pk] == identity.fingerprint:
            return Disposition.DUPLICATE
        return KeyConflict("an event with other content was committed under this key in this batch")


def _rank(message: Message) -> _Rank:
    if message.delivery.is_last_chance:
        return _Rank.LAST_CHANCE
    return _Rank.OFTEN_RECEIVED if message.delivery.came_often else _Rank.ORDINARY


def _either_end(messages: Sequence[Message]) -> Message:
    """Return the first message or the last, alternating with the receive count.

    If one message ends the function, every other one is attempted before it at least once.
    """
    fewest = min(message.attempts for message in messages)
    messages = [message for message in messages if message.attempts == fewest]
    return messages[-1 if messages[-1].delivery.receive_count % 2 == 0 else 0]
