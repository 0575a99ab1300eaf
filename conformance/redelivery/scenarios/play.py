"""The play of each scenario: messages sent and delivered with its fault."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from redelivery.boundary.invocation import Plan
from redelivery.faults import Fault
from redelivery.messages import NEIGHBOUR, POISON, Message, Samples
from redelivery.scenarios.interleaving import Turns, Work
from redelivery.scenarios.run import Outcome, Run
from redelivery.scenarios.scenario import SENT_TWICE, Scenario
from redelivery.world.world import World

SOON_SECONDS = 30
REDRIVE_SECONDS = 600
_WITHOUT_FIELDS, _NO_JSON = "a neighbour without its fields", "a message that is not JSON"
BESIDE = {
    Fault.NEIGHBOUR_FAILS: Message(_WITHOUT_FIELDS, NEIGHBOUR, group=_WITHOUT_FIELDS),
    Fault.POISON: Message(_NO_JSON, POISON, group=_NO_JSON),
}
"""The other message of the faults that have one."""


def play(world: World, samples: Samples, scenario: Scenario) -> Outcome:
    """Play a scenario in a world that is as new, and return what it left."""
    at = scenario.at[0] if scenario.fault.at_a_call else 0
    run = Run(world, Plan(scenario.fault if at else None, at))
    if at:
        run.send(*_messages(samples, scenario.messages))
        run.settle()
    else:
        _PLAYS[scenario.fault](run, samples, scenario)
    return run.outcome()


def play_clean(world: World, messages: Sequence[Message]) -> Outcome:
    """Process messages one after the other without a fault."""
    run = Run(world, Plan())
    for message in messages:
        run.send(message)
        run.settle()
    return run.outcome()


def _messages(samples: Samples, count: int) -> list[Message]:
    both = [samples.first, samples.second]
    return [message for message in both[:count] if message is not None]


def _batch(run: Run, samples: Samples, _: Scenario) -> None:
    run.plan.fired = True
    run.send(*_messages(samples, 2))
    run.settle()


def _twice_in_batch(run: Run, samples: Samples, _: Scenario) -> None:
    run.plan.fired = True
    run.send(samples.first)
    run.send_copy(samples.first)
    run.settle()


def _in_parallel(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.send(samples.first)
    if scenario.variant == SENT_TWICE:
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
            run.tell(f"SQS delivers m1 to {process.name}")
            answers[index] = run.invoke(process, own, invocation)

        return play_one

    turns = Turns(scenario.at)
    turns.run([work(0), work(1)])
    run.plan.fired = turns.changed > 0
    for record, answer in zip(records, answers, strict=True):
        run.acknowledge([record], answer)
    run.settle()


def _delivered_again(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.plan.fired = True
    run.send(samples.first)
    run.settle()
    if scenario.variant == "cold":
        run.end_process()
        run.tell("Lambda starts a new process")
    run.send_copy(samples.first)
    run.tell("SQS delivers m1 again, with the same MessageId")
    run.settle()


def _sent_again(run: Run, samples: Samples, _: Scenario) -> None:
    _again_after(run, samples, SOON_SECONDS, "the producer sends m1 again after 30 seconds")


def _redriven(run: Run, samples: Samples, _: Scenario) -> None:
    run.end_process()
    _again_after(run, samples, REDRIVE_SECONDS, "m1 is sent to its queue again after ten minutes")


def _after_expiry(run: Run, samples: Samples, _: Scenario) -> None:
    seconds = run.world.subject.horizon_seconds
    sentence = f"{seconds / 86400:.4g} days pass; what has expired is deleted; m1 arrives again"
    _again_after(run, samples, seconds, sentence)


def _again_after(run: Run, samples: Samples, seconds: float, sentence: str) -> None:
    run.plan.fired = True
    run.send(samples.first)
    run.settle()
    run.world.wait(seconds)
    if seconds > SOON_SECONDS:
        run.end_process()
    run.tell(sentence)
    run.send(samples.first)
    run.settle()


def _batch_answer_lost(run: Run, samples: Samples, _: Scenario) -> None:
    run.drop_answer = True
    run.send(*_messages(samples, 2))
    run.settle()


def _beside(run: Run, samples: Samples, scenario: Scenario) -> None:
    run.plan.fired = True
    other = BESIDE[scenario.fault]
    order = [other, samples.first] if scenario.variant == "first" else [samples.first, other]
    run.send(*order)
    run.settle()


def _other_content(run: Run, samples: Samples, _: Scenario) -> None:
    if samples.other is None:
        raise ValueError("the samples have no message with other content")
    run.plan.fired = True
    run.send(samples.first)
    run.settle()
    run.tell("a message with the same key and other content arrives")
    run.send(samples.other)
    run.settle()


_PLAYS: Mapping[Fault, Callable[[Run, Samples, Scenario], None]] = {
    Fault.BATCH: _batch,
    Fault.TWICE_IN_BATCH: _twice_in_batch,
    Fault.IN_PARALLEL: _in_parallel,
    Fault.DELIVERED_AGAIN: _delivered_again,
    Fault.SENT_AGAIN: _sent_again,
    Fault.REDRIVEN: _redriven,
    Fault.AFTER_EXPIRY: _after_expiry,
    Fault.BATCH_ANSWER_LOST: _batch_answer_lost,
    **dict.fromkeys(BESIDE, _beside),
    Fault.OTHER_CONTENT: _other_content,
}
