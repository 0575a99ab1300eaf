"""Dead letters that call an effect unknown while its owner is still at it, and succeeds."""

import json
from collections.abc import Iterator

from once.schema import DeadLetter, Reason, Record, Standing
from proof.shop.service import DEDUP, Place, Service
from proof.world.expressions import Item
from proof.world.queues import Message


class Doubts:
    """Watches the dead letters of consumers whose provider knows no keys.

    Args:
        service: the service.

    Attributes:
        doubted: the keys that were called unknown while their owner was at it.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._world = service.world
        self._read = dict.fromkeys(service.places, 0)
        self.doubted: set[str] = set()

    def unfounded(self) -> list[str]:
        """Return the keys that were called unknown during the call that succeeded."""
        for place in self._service.places.values():
            letters = place.dead_letters.ever
            for letter in letters[self._read[place.line.name] :]:
                self.doubted |= set(self._in_progress(place, letter))
            self._read[place.line.name] = len(letters)
        records = self._world.tables.items[DEDUP]
        return sorted(pk for pk in self.doubted if Record.OUTCOME in records.get(pk, {}))

    def _in_progress(self, place: Place, letter: Message) -> Iterator[str]:
        if reason_of(letter) != Reason.EFFECT_UNKNOWN:
            return
        order = json.loads(letter.body)["data"]["order_id"]
        for pk, item in self._world.tables.items[DEDUP].items():
            is_its = pk.startswith(f"{place.line.name}#") and pk.endswith(f":{order}")
            if is_its and Record.KEY_EXPIRES_AT not in item and self._has_living_owner(item):
                yield pk

    def _has_living_owner(self, item: Item) -> bool:
        if item.get(Record.STANDING) != {"S": Standing.IN_FLIGHT}:
            return False
        owner = self._world.owners[item[Record.OWNER]["S"]]
        return not owner.dead and owner.deadline > self._world.tasks.now


def reason_of(letter: Message) -> str:
    """Return why a dead letter is there; empty if it does not say."""
    return str(letter.attributes.get(DeadLetter.REASON, {}).get("StringValue", ""))
