"""Random choice of the calls that are cut off."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from random import Random


class Drop(StrEnum):
    """A way to cut off a call. The caller always sees a closed connection.

    Attributes:
        REFUSED: the call does not reach AWS.
        ANSWER_LOST: the call is executed, and its answer is lost.
        LATE: the call is executed some time after the connection to the caller is closed.
    """

    REFUSED = auto()
    ANSWER_LOST = auto()
    LATE = auto()


@dataclass(frozen=True)
class Drops:
    """The rates of cut-off calls.

    Attributes:
        seed: of the choice, together with the call's id.
        shares: the share of the calls that are cut off in each way, from 0 to 1.
        stubborn: the share of these whose retry by the SDK is cut off as well.
        late_seconds: the delay of a LATE call.
    """

    seed: int
    shares: Mapping[Drop, float]
    stubborn: float = 0.5
    late_seconds: float = 1.0

    def drawn(self, call: str, *, is_retry: bool) -> Drop | None:
        """Return how an attempt of a call, given by its id, is cut off; None if it is not."""
        random = Random(f"{self.seed}/{call}")
        left, is_stubborn = random.random(), random.random() < self.stubborn
        if is_retry and not is_stubborn:
            return None
        for drop, share in self.shares.items():
            left -= share
            if left < 0:
                return drop
        return None
