"""Webhook plan: the requests of each simulated day, drawn with a seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import Self

from demo.scenarios.webhooks.deliveries import (
    NEEDS_GENUINE,
    NEEDS_TIME,
    SIGNS_TIME,
    TYPE_HEADERS,
    Altered,
    Delivery,
    Forged,
    Genuine,
    Handshake,
    Provider,
    SampleWebhook,
    Trick,
)

WEBHOOKS = 1000
RESENT_SHARE = 0.4
FORGED_SHARE = 0.1
REPLAYED = 20
ALTERED = 90
HANDSHAKES = 4
HOURS_BEFORE = (0, 4, 20, 48)
"""Simulated time before each wave, in hours: the last one is three days after the first."""

_FIRST_SENT = (0.5, 0.3, 0.2)
"""Share of the webhooks that are new in each wave; the last wave has none."""


@dataclass(frozen=True, slots=True)
class WebhookPlan:
    """The requests to send.

    Attributes:
        webhooks: the genuine webhooks, once each.
        resent: how many of them are sent again.
        forged: the requests that must be refused.
        replayed: how many requests come again under an id that is not signed.
        altered: copies with other headers that are not signed, sent before the genuine webhook.
        handshakes: Slack's handshakes.
        waves: all requests, those of each simulated time in the order of sending.
    """

    webhooks: Sequence[SampleWebhook]
    resent: int
    forged: Sequence[Forged]
    replayed: int
    altered: Sequence[Altered]
    handshakes: Sequence[Handshake]
    waves: Sequence[Sequence[Delivery]]

    @classmethod
    def draw(cls, random: Random) -> Self:
        """Return a plan."""
        webhooks = [_sample(random, f"w-{n:04}") for n in range(WEBHOOKS)]
        first = dict(zip((w.serial for w in webhooks), _first_waves(), strict=True))
        waves: list[list[Delivery]] = [[] for _ in HOURS_BEFORE]
        for webhook in webhooks:
            waves[first[webhook.serial]].append(Genuine(webhook))
        again = random.sample(webhooks, int(WEBHOOKS * RESENT_SHARE))
        for webhook in again:
            for number, later in enumerate(_later(random, webhook, first[webhook.serial]), 1):
                waves[later].append(Genuine(webhook, number))
        forged = list(_forgeries(random, webhooks))
        replays = list(_replays(random, webhooks))
        handshakes = [Handshake(f"challenge-{n}") for n in range(HANDSHAKES)]
        extras: list[Delivery] = [*forged, *handshakes]
        for extra in extras:
            random.choice(waves).append(extra)
        waves[-1] += replays
        for wave in waves:
            random.shuffle(wave)
        altered = list(_altered(random, webhooks))
        for copy in altered:
            waves[first[copy.webhook.serial]].insert(0, copy)
        return cls(webhooks, len(again), forged, len(replays), altered, handshakes, waves)


def _sample(random: Random, serial: str, *providers: Provider) -> SampleWebhook:
    provider = random.choice(providers or [*Provider])
    is_form = provider is Provider.GITHUB and random.random() < 0.25
    return SampleWebhook.sample(provider, serial, random.randint(1, 10**6), is_form=is_form)


def _first_waves() -> Iterator[int]:
    for wave, share in enumerate(_FIRST_SENT):
        yield from [wave] * round(WEBHOOKS * share)


def _later(random: Random, webhook: SampleWebhook, first: int) -> Sequence[int]:
    """Return the waves in which a webhook comes again, the first one included: in parallel."""
    last = len(HOURS_BEFORE) - 1
    if webhook.provider is Provider.SHOPIFY:  # it gives up after four hours
        last = max(first, 1)
    return sorted(random.choices(range(first, last + 1), k=random.randint(1, 2)))


def _forgeries(random: Random, webhooks: Sequence[SampleWebhook]) -> Iterator[Forged]:
    count = int(WEBHOOKS * FORGED_SHARE)
    for number, trick in enumerate(islice(cycle(Trick), count)):
        if trick in NEEDS_GENUINE:
            yield Forged(random.choice(webhooks), trick)
        else:
            providers = SIGNS_TIME if trick in NEEDS_TIME else ()
            yield Forged(_sample(random, f"forged-{number:03}", *providers), trick)


def _replays(random: Random, webhooks: Sequence[SampleWebhook]) -> Iterator[Genuine]:
    unsigned_id = [w for w in webhooks if w.provider in {Provider.GITHUB, Provider.SHOPIFY}]
    for webhook in random.sample(unsigned_id, REPLAYED):
        yield Genuine(webhook, other_id=f"other-{webhook.id}")


def _altered(random: Random, webhooks: Sequence[SampleWebhook]) -> Iterator[Altered]:
    for number, webhook in enumerate(random.sample(webhooks, ALTERED)):
        is_typed = webhook.provider in TYPE_HEADERS and number % 4
        yield Altered(webhook, type=f"other-{number % 2}" if is_typed else "")
