"""A pending record of an effect, as the tests of the ledger write and read it."""

from once.handlers.actions import serialize
from once.handlers.effect_declaration import Effect, Policy
from once.handlers.intent import Intent
from tests.once.effects.provider import LIFETIME, Charge, Provider
from tests.once.support import Bench

PK = "notes#event"


def effect_of(policy: Policy = Policy.PROVIDER_KEY) -> Effect:
    lifetime = LIFETIME if policy is Policy.PROVIDER_KEY else 0
    return Effect("charge", Charge, policy, lifetime, Provider().charge)


EFFECT = effect_of()


def opened(bench: Bench, effect: Effect = EFFECT) -> Intent:
    """An intent that is in the table."""
    intent = bench.ledger.open(effect, b"{}", PK, 10)
    store(bench, intent)
    return intent


def store(bench: Bench, intent: Intent, **changes: str) -> None:
    item = {"pk": PK, "state": "pending"} | changes
    bench.client.put_item(TableName="dedup", Item={**serialize(item), **intent.item()})


def stored(bench: Bench) -> Intent:
    [item] = bench.aws.items("dedup")
    return Intent.read(serialize(item))


def later(bench: Bench, seconds: float = 10) -> None:
    assert bench.aws.time is not None
    bench.aws.time += seconds
