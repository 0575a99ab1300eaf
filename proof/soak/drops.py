"""Which calls are cut off, and how, by chance that a seed decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from random import Random


class Drop(StrEnum):
    """How a call is cut off. The caller always sees the same: a connection that closes.

    Attributes:
        REFUSED: AWS never hears of it.
        ANSWER_LOST: it is done, and the answer is lost.
        LATE: it is done only when the caller has been cut off for a while.
    """

    REFUSED = auto()
    ANSWER_LOST = auto()
    LATE = auto()


@dataclass(frozen=True)
class Drops:
    """How many calls are cut off.

    Attributes:
        seed: what the chance depends on, besides the call's id.
        shares: the part of the calls that are cut off in each way, from 0 to 1.
        stubborn: the part of those whose retry by the SDK meets the same; the others get through.
        late_seconds: how long a LATE one is held back.
    """

    seed: int
    shares: Mapping[Drop, float]
    stubborn: float = 0.5
    late_seconds: float = 1.0

    def drawn(self, call: str, *, again: bool) -> Drop | None:
        """Return how an attempt is cut off; None lets it through.

        Args:
            call: the id that all attempts of one call share.
            again: whether this is the SDK's retry.
        """
        random = Random(f"{self.seed}/{call}")
        left, is_stubborn = random.random(), random.random() < self.stubborn
        if again and not is_stubborn:
            return None
        for drop, share in self.shares.items():
            left -= share
            if left < 0:
                return drop
        return None
