"""The consumer's machine on a FIFO queue: commits keep the order of a message group."""

from hypothesis.stateful import invariant

from proof.world.queues import Message
from tests.proof.machines import quick
from tests.proof.test_machine_consumer import GROUPS, Notes, group_of, id_of


class FifoNotes(Notes):
    """A FIFO queue: a message group is delivered in order, and not while one is in flight."""

    FIFO = True

    @invariant()
    def a_message_group_is_committed_in_order(self) -> None:
        """Except events with a dead letter: the ones after them need not wait."""
        dead = {id_of(letter.body) for letter in self.dead.ever}
        sent = dict.fromkeys(id_of(message.body) for message in self.queue.ever)
        for group in GROUPS:
            expected = [event for event in sent if event not in dead and group_of(event) == group]
            committed = [event for event in self._commits() if event in expected]
            assert committed == [event for event in expected if event in committed]

    def _deliverable(self) -> list[Message]:
        found, closed = [], set()
        for message in self.queue.waiting:
            group = group_of(id_of(message.body))
            if message.visible_at > self.stage.tasks.now:
                closed.add(group)
            elif group not in closed:
                found.append(message)
        return found

    def _batch(self, chosen: list[int]) -> list[Message]:
        return self._deliverable()[: len(chosen)]


TestFifoNotes = FifoNotes.TestCase
TestFifoNotes.settings = quick(80)
