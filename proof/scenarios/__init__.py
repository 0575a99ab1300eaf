"""Scenarios: the services that run in the world, with their traffic and additional clauses."""

from collections.abc import Mapping

from proof.ledger import Scenario
from proof.scenarios.commands import CommandsOfCallers
from proof.scenarios.due_events import DueEvents
from proof.scenarios.effects import Effects, FailingOrders
from proof.scenarios.fifo import BlockingFifo, Fifo
from proof.scenarios.item_dedup import ItemsAlone, ItemsInGroups
from proof.scenarios.regions import Regions
from proof.scenarios.shop import Shop
from proof.scenarios.webhooks import Webhooks

SCENARIOS: Mapping[str, type[Scenario]] = {
    "shop": Shop,
    "effects": Effects,
    "failing orders": FailingOrders,
    "fifo": Fifo,
    "fifo, blocking": BlockingFifo,
    "items, alone": ItemsAlone,
    "items, in groups": ItemsInGroups,
    "webhooks": Webhooks,
    "commands": CommandsOfCallers,
    "regions": Regions,
    "due events": DueEvents,
}
