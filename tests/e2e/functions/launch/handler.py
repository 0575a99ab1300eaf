"""Starts a state machine for each event, and stores the ARN of the execution."""

from msgspec import Struct

from once import Consumer, Transaction, state_machine

consumer = Consumer("launch")
COUNTERS = consumer.table("counters")


class Asked(Struct, frozen=True):
    counter: str


start = state_machine(consumer, "count", Asked)


@consumer.handles("launch.asked", Asked)
def launch(event: Asked, tx: Transaction) -> None:
    tx.perform(start, event)


@consumer.completes(start)
def launched(event: Asked, execution: str, tx: Transaction) -> None:
    tx.put(COUNTERS, {"id": event.counter, "execution": execution})


lambda_handler = consumer.lambda_handler
