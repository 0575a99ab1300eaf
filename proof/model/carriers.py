"""The other parts: the relay from the stream to the topic, and the operator's redrive."""

from proof.model.calls import (
    DONE,
    SILENCE,
    Checkpoint,
    DeleteLetter,
    Letter,
    Publish,
    Reply,
    SendBack,
)
from proof.model.performer import Steps
from proof.model.world import Streamed

_ATTEMPTS = 2


class Relay:
    """Publishes a batch of stream records, then lets Lambda move on, as the relay does."""

    def __init__(self, _: str, batch: tuple[Streamed, ...]) -> None:
        self._batch = batch

    def run(self) -> Steps:
        """Send first; what cannot be sent fails the batch, which comes again."""
        events = [record.key for record in self._batch if self._is_new(record)]
        for _ in range(_ATTEMPTS):
            if not events:
                break
            reply = yield Publish(tuple(events))
            events = self._left(events, reply)
        if not events:
            yield Checkpoint(len(self._batch))

    def _is_new(self, record: Streamed) -> bool:
        return not record.removed

    def _left(self, events: list[str], reply: Reply) -> list[str]:
        """What is not among the successful, whether the answer says why or not."""
        return events if reply == SILENCE else [event for event in events if event not in reply]


class Operator:
    """Sends one dead letter back: as `once.ops.dead_letters.redrive` does."""

    def __init__(self, _: str, letter: Letter) -> None:
        self._letter = letter

    def run(self) -> Steps:
        """First sent, then deleted, so that nothing is lost."""
        if (yield SendBack(self._letter)) == DONE:
            yield DeleteLetter(self._letter)
