"""A deployed function with commands, whose requests write real records and log lines."""

import io
from typing import Any
from uuid import uuid4

from aws_lambda_powertools import Logger
from msgspec import Struct
from msgspec.structs import replace

from once import Answer, Commands, Refusal, Transaction
from once.commands.runner import CommandRuntime
from once.errors import KeyConflict
from once.names import StackOutput
from once.runtime.metrics_log import MetricsLog
from once.settings import CommandSettings
from tests.ops.cloud import REGION, Cloud

URL = "https://api.example/"
SCOPE = '["claim","sub","u-1"]'
SECRET = "of u-1 alone"
ORDER = {"order_id": "o-1"}


class Order(Struct):
    """An order."""

    order_id: str
    fails: bool = False


class Taken(Refusal):
    """The id is taken."""


api = Commands("checkout")


@api.handles("place-order", Order)
def place(order: Order, tx: Transaction) -> Answer:
    if order.fails:
        raise ZeroDivisionError("a secret")
    if order.order_id == "taken":
        raise Taken
    tx.publish("order.placed", order)
    return Answer({"told": SECRET}, status=201)


@api.rejects(Taken)
def refuse(order: Order, refusal: Taken, tx: Transaction) -> None:
    """Answer without content."""


class Door:
    """A deployed function with commands: its outputs, and the log that its requests write."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        cloud.service |= {
            f"{StackOutput.COMMANDS_FUNCTION}Checkout": "once-checkout",
            f"{StackOutput.COMMANDS}Checkout": "place-order,take-back",
            f"{StackOutput.COMMANDS_URL}Checkout": URL,
        }
        for name in ("checkout", "orders", "inventory", "outbox_relay"):
            cloud.log(name)
        log = io.StringIO()
        settings = CommandSettings(
            consumer="checkout",
            dedup_table="physical-dedup",
            tables={},
            dedup_window_seconds=10**6,
            commands=("place-order",),
            publishes=("order.placed",),
        )
        runtime = replace(
            CommandRuntime.of(settings, region=REGION),
            logger=Logger(service=uuid4().hex, stream=log),
            metrics=MetricsLog(service="once-checkout", write=lambda line: log.write(f"{line}\n")),
        )
        self.log, self.runner = log, api.bound_to(runtime)

    def request(self, key: str, scope: str = SCOPE, **data: Any) -> None:
        """Send a request, and write its log."""
        deadline = self.runner.deadline(10)
        try:
            self.runner.run("place-order", data, key=key, scope=scope, deadline=deadline)
        except (KeyConflict, ZeroDivisionError):
            pass
        finally:
            self.cloud.log("checkout", *self.log.getvalue().splitlines())
            self.log.seek(0)
            self.log.truncate()


FIGURES = {
    **dict.fromkeys(("committed", "refused", "repeated", "conflicting", "failed"), 1),
    "invalid": 0,
}


def some_requests(door: Door) -> None:
    """A request of each outcome but `invalid`."""
    for key, data in (
        ("a", {"order_id": "o-1"}),
        ("a", {"order_id": "o-1"}),
        ("a", {"order_id": "o-2"}),
        ("b", {"order_id": "taken"}),
        ("c", {"order_id": "o-3", "fails": True}),
    ):
        door.request(key, **data)
