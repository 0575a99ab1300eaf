"""Shrinking: the smallest run that still violates the same oracle."""

from collections.abc import Iterator
from dataclasses import replace

from proof.replays import repeat
from proof.shop.replay import Replay
from proof.traffic import Traffic


def shrunk(replay: Replay, oracle: str) -> Replay:
    """Remove actions, orders, copies and entries while the run still violates the oracle."""
    smaller: Replay | None = replay
    while smaller is not None:
        replay = smaller
        smaller = next((one for one in _smaller(replay) if _violates(one, oracle)), None)
    return replay


def _violates(replay: Replay, oracle: str) -> bool:
    violation = repeat(replay).violation
    return violation is not None and violation.oracle == oracle


def _smaller(replay: Replay) -> Iterator[Replay]:
    """Yield runs with one part less, the largest parts first."""
    actions = replay.actions
    size = len(actions)
    while size:
        for start in range(0, len(actions), size):
            yield replace(replay, actions=actions[:start] + actions[start + size :])
        size //= 2
    for traffic in _less(replay.traffic):
        yield replace(replay, traffic=traffic)


def _less(traffic: Traffic) -> Iterator[Traffic]:
    if traffic.entries is not None:
        yield from (replace(traffic, entries=less) for less in traffic.entries.less())
    if len(traffic.webhooks) > 1:
        for story in traffic.webhooks:
            yield replace(traffic, webhooks=tuple(s for s in traffic.webhooks if s is not story))
    if traffic.nonsense:
        yield replace(traffic, nonsense=0)
    for number, order in enumerate(traffic.orders):
        before, after = traffic.orders[:number], traffic.orders[number + 1 :]
        if before or after:
            yield replace(traffic, orders=before + after)
        if order.conflicts:
            yield replace(traffic, orders=(*before, replace(order, conflicts=0), *after))
        if order.copies > 1:
            yield replace(traffic, orders=(*before, replace(order, copies=1), *after))
