"""Counts the events that `counter` publishes."""

from msgspec import Struct

from once import Consumer, Transaction

consumer = Consumer("follower")
FOLLOWERS = consumer.table("followers")


class Counted(Struct, frozen=True):
    counter: str


@consumer.handles("verify.counted", Counted)
def follow(event: Counted, tx: Transaction) -> None:
    tx.update(FOLLOWERS, {"id": event.counter}, "ADD amount :one", {":one": 1})


lambda_handler = consumer.lambda_handler
