"""The play of each scenario: messages sent and delivered with its fault."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redelivery.boundary.invocation import Plan
from redelivery.faults import Fault
from redelivery.samples import NEIGHBOUR, POISON, Message, Samples
from redelivery.scenarios.run import Outcome, Run
from redelivery.scenarios.scenario import SENT_TWICE, Scenario
from redelivery.world.world import World

SOON_SECONDS = 30
REDRIVE_SECONDS = 600
BESIDE = (Fault.NEIGHBOUR_FAILS, Fault.POISON)
"""The faults with another message that should fail."""

_SHOWN_BY_THE_PLAY = {
    *(Fault.IN_PARALLEL, Fault.TWO_IN_PARALLEL),
    *(Fault.BATCH_ANSWER_LOST, Fault.REGROUPED, Fault.STALE_READ),
}
"""Faults that may not take place, as the play shows."""

Work = Callable[[Callable[[int], None]], None]
"""One invocation; it is given what it must call before its call number n."""


def play(world: World, samples: Samples, scenario: Scenario) -> Outcome:
    """Play a scenario in a world that is as new, and return what it left."""
    faults = dict(scenario.more)
    if scenario.fault.at_a_call:
        run = Run(world, Plan({scenario.at[0]: scenario.fault, **faults}))
        run.send(*filter(None, [samples.first, samples.second][: scenario.messages]))
    else:
        run = Run(world, Plan(faults, delivered=scenario.fault not in _SHOWN_BY_THE_PLAY))
        _PLAYS[scenario.fault](run, samples, scenario)
    run.settle()
    return run.outcome()


def play_clean(world: World, messages: Sequence[Message]) -> Outcome:
    """Process messages one after the other without a fault."""
    run = Run(world, Plan(), is_clean=True)
    for message in messages:
        run.send(message)
        run.settle()
    return run.outcome()


def _batch(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.drop_answer = scenario.fault is Fault.BATCH_ANSWER_LOST
    run.send(*filter(None, [samples.first, samples.second]))


def _twice_in_batch(run: Run, samples: Samples, _: Scenario) -> None:
    run.send(samples.first)
    run.send_copy(samples.first)


def _regrouped(run: Run, samples: Samples, _: Scenario) -> None:
    run.drop_answer = True
    run.send(samples.first)
    run.deliver_once()
    run.world.wait(run.world.subject.visibility_seconds + 1)
    run.send(*filter(None, [samples.second]))


def _stale_read(run: Run, samples: Samples, _: Scenario) -> None:
    run.send(samples.first)
    run.settle()
    run.record.is_stale = True
    run.send_copy(samples.first)
    run.tell("SQS delivers m1 again at once")


def _in_parallel(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.send(samples.first)
    other = samples.sibling if scenario.fault is Fault.TWO_IN_PARALLEL else None
    if other is not None:
        run.send(other)
    elif scenario.variant == SENT_TWICE:
        run.send(samples.first)
    elif not run.world.subject.fifo:
        run.send_copy(samples.first)
    # A FIFO queue delivers the one message again when its visibility timeout ends too early.
    records = (run.queue.receive() * 2)[:2]
    processes = [run.new_process(), run.new_process()]
    answers: list[Any] = [None, None]

    def work(index: int) -> Work:
        def play_one(before_call: Callable[[int], None]) -> None:
            process, own = processes[index], [records[index]]
            invocation = run.invocation(before_call)
            invocation.tell = lambda sentence: run.tell(f"{process.name}: {sentence}")
            run.tell(f"SQS delivers {run.named(own)} to {process.name}")
            answers[index] = run.invoke(process, own, invocation)

        return play_one

    turns = _Turns(scenario.at)
    turns.run([work(0), work(1)])
    run.plan.delivered = turns.changed > 0
    for record, answer in zip(records, answers, strict=True):
        run.acknowledge([record], answer)


def _delivered_again(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.send(samples.first)
    run.settle()
    if scenario.variant == "cold":
        run.end_process()
        run.tell("Lambda starts a new process")
    run.send_copy(samples.first)
    run.tell("SQS delivers m1 again, with the same MessageId")


def _sent_later(run: Run, samples: Samples, scenario: Scenario) -> None:
    horizon = run.world.subject.horizon_seconds
    seconds, sentence = {
        Fault.SENT_AGAIN: (SOON_SECONDS, "the producer sends m1 again after 30 seconds"),
        Fault.REDRIVEN: (REDRIVE_SECONDS, "m1 is sent to its queue again after ten minutes"),
        Fault.AFTER_EXPIRY: (
            horizon,
            f"{horizon / 86400:.4g} days pass; what has expired is deleted; m1 arrives again",
        ),
    }[scenario.fault]
    run.send(samples.first)
    run.settle()
    guessed = run.world.wait(seconds, undeclared=scenario.fault is Fault.AFTER_EXPIRY)
    for attribute in guessed:
        run.tell(f"{attribute} is taken for a time to live (ttl=, no-ttl): expired items are gone")
    if seconds > SOON_SECONDS:
        run.end_process()
    run.tell(sentence)
    run.send(samples.first)


def beside(scenario: Scenario) -> Message:
    """Return the other message of a scenario with one that should fail."""
    if scenario.fault is Fault.NEIGHBOUR_FAILS:
        label, body = "a neighbour without its fields", NEIGHBOUR
    else:
        label = "a message that is no JSON object"
        body = POISON.get(scenario.variant, POISON[""])
    return Message(label, body, group=label)


def _beside(run: Run, samples: Samples, scenario: Scenario) -> None:
    both = [beside(scenario), samples.first]
    run.send(*(reversed(both) if scenario.variant == "last" else both))


def _other_content(run: Run, samples: Samples, _: Scenario) -> None:
    run.send(samples.first)
    run.settle()
    run.tell("a message with the same key and other content arrives")
    run.send(*filter(None, [samples.other]))


_PLAYS: Mapping[Fault, Callable[[Run, Samples, Scenario], None]] = {
    Fault.BATCH: _batch,
    Fault.BATCH_ANSWER_LOST: _batch,
    Fault.TWICE_IN_BATCH: _twice_in_batch,
    Fault.IN_PARALLEL: _in_parallel,
    Fault.TWO_IN_PARALLEL: _in_parallel,
    Fault.DELIVERED_AGAIN: _delivered_again,
    Fault.STALE_READ: _stale_read,
    Fault.REGROUPED: _regrouped,
    Fault.SENT_AGAIN: _sent_later,
    Fault.REDRIVEN: _sent_later,
    Fault.AFTER_EXPIRY: _sent_later,
    **dict.fromkeys(BESIDE, _beside),
    Fault.OTHER_CONTENT: _other_content,
}


class _Turns:
    """Lets two invocations run alternately: deterministic, since one thread runs at a time."""

    def __init__(self, changes: Sequence[int]) -> None:
        """Take the numbers of the calls before which the first, the second, … changes over.

        `(3,)`: the first invocation stops before its third call until the second has ended.
        `(3, 2)`: the second stops before its second call until the first has ended.
        """
        self._changes = changes
        self._go = (threading.Event(), threading.Event())
        self._ended = [False, False]
        self.changed = 0

    def run(self, works: Sequence[Work]) -> None:
        """Run two invocations to their ends. Raises what one of them raises."""
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._one, args=(index, work, errors), daemon=True)
            for index, work in enumerate(works)
        ]
        self._go[0].set()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def _one(self, index: int, work: Work, errors: list[BaseException]) -> None:
        self._go[index].wait()
        try:
            work(lambda number: self._before_call(index, number))
        except BaseException as error:
            errors.append(error)
        self._ended[index] = True
        self._go[1 - index].set()

    def _before_call(self, index: int, number: int) -> None:
        changes = self._changes[index] if index < len(self._changes) else 0
        if number != changes or self._ended[1 - index]:
            return
        self.changed += 1
        self._go[index].clear()
        self._go[1 - index].set()
        self._go[index].wait()
