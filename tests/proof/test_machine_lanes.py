"""The consumer's machine on a FIFO queue: what commits keeps the order of its message group."""

from hypothesis.stateful import invariant

from proof.world.queues import Message
from tests.proof.machines import quick
from tests.proof.test_machine_consumer import LANES, Notes, id_of, lane_of


class Lanes(Notes):
    """A FIFO queue: a message group is handed out in order, never while in flight."""

    FIFO = True

    @invariant()
    def a_group_is_committed_in_its_order(self) -> None:
        """Of events that died once nothing is said: what follows them had not to wait."""
        died = {id_of(letter.body) for letter in self.dead.ever}
        sent = dict.fromkeys(id_of(message.body) for message in self.queue.ever)
        for lane in LANES:
            expected = [event for event in sent if event not in died and lane_of(event) == lane]
            committed = [event for event in self._commits() if event in expected]
            assert committed == [event for event in expected if event in committed]

    def _all_comes_to_its_end(self) -> None:
        super()._all_comes_to_its_end()
        self.a_group_is_committed_in_its_order()

    def _deliverable(self) -> list[Message]:
        found, closed = [], set()
        for message in self.queue.waiting:
            if message.visible_at > self.stage.tasks.now:
                closed.add(lane_of(id_of(message.body)))
            elif lane_of(id_of(message.body)) not in closed:
                found.append(message)
        return found

    def _batch(self, chosen: list[int]) -> list[Message]:
        return self._deliverable()[: len(chosen)]


TestLanes = Lanes.TestCase
TestLanes.settings = quick(80)
