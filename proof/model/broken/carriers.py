"""A broken relay, and a broken redrive: each is the real one but for what its name says."""

from proof.model.calls import DONE, SILENCE, Checkpoint, DeleteLetter, Publish, Reply, SendBack
from proof.model.carriers import Operator, Relay
from proof.model.performer import Steps
from proof.model.world import Streamed


class CheckpointFirst(Relay):
    """Lambda moves on in the stream before the events are sent."""

    def run(self) -> Steps:
        """Move on, and then send."""
        yield Checkpoint(len(self._batch))
        yield Publish(tuple(record.key for record in self._batch))


class BelievesTheBatch(Relay):
    """A batch that the topic answered counts as published, every entry of it."""

    def _left(self, events: list[str], reply: Reply) -> list[str]:
        return events if reply == SILENCE else []


class RelaysRemovals(Relay):
    """What TTL removes is published again."""

    def _is_new(self, _: Streamed) -> bool:
        return True


class DeletesFirst(Operator):
    """A dead letter is deleted, and then sent."""

    def run(self) -> Steps:
        """Delete, and then send."""
        if (yield DeleteLetter(self._letter)) == DONE:
            yield SendBack(self._letter)
