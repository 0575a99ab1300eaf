"""Dead letters that report an unknown outcome while the effect is running, and then succeeds."""

import json
from collections.abc import Iterator

from once.names import DeadLetter, Reason, Record, Standing
from proof.shop.service import DEDUP, Place, Service
from proof.world.expressions import Item
from proof.world.messages import Message


class UnknownOutcomes:
    """Watches the dead letters of effects without a provider key.

    Attributes:
        premature: keys of effects that a dead letter reported as unknown while they were running.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._world = service.world
        self._read = dict.fromkeys(service.places, 0)
        self.premature: set[str] = set()

    def wrong(self) -> list[str]:
        """Return the keys of premature effects that have succeeded."""
        for name, place in self._service.places.items():
            letters = place.dead_letters.ever
            for letter in letters[self._read[name] :]:
                self.premature |= set(self._running(place, letter))
            self._read[name] = len(letters)
        if not self.premature:
            return []
        records = self._world.tables.items[DEDUP]
        return sorted(pk for pk in self.premature if Record.OUTCOME in records.get(pk, {}))

    def _running(self, place: Place, letter: Message) -> Iterator[str]:
        if reason_of(letter) != Reason.EFFECT_UNKNOWN or has_outcome(letter):
            return
        order = json.loads(letter.body)["data"]["order_id"]
        for pk, item in self._world.tables.items[DEDUP].items():
            is_its = pk.startswith(f"{place.line.name}#") and pk.endswith(f":{order}")
            if is_its and Record.KEY_EXPIRES_AT not in item and self._has_running_owner(item):
                yield pk

    def _has_running_owner(self, item: Item) -> bool:
        if item.get(Record.STANDING) != {"S": Standing.IN_FLIGHT}:
            return False
        owner = self._world.owners[item[Record.OWNER]["S"]]
        return not owner.dead and owner.deadline > self._world.tasks.now


def reason_of(letter: Message) -> str:
    """Return a dead letter's reason; empty if SQS itself moved it."""
    return str(letter.attributes.get(DeadLetter.REASON, {}).get("StringValue", ""))


def has_outcome(letter: Message) -> bool:
    """Return whether a dead letter holds the outcome of an effect, whose commit had no answer."""
    error = letter.attributes.get(DeadLetter.ERROR, {}).get("StringValue", "")
    return "its outcome could be neither committed" in error
