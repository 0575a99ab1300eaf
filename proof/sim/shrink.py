"""The smallest run that still breaks the same promise."""

from collections.abc import Iterator
from dataclasses import replace

from proof.shop.course import Replay, play
from proof.shop.traffic import Traffic


def shrunk(replay: Replay, oracle: str) -> Replay:
    """Leave out whatever the violation does not need: actions, orders, copies.

    Args:
        replay: a run that breaks a promise.
        oracle: which; another one does not count.
    """
    smaller: Replay | None = replay
    while smaller is not None:
        replay = smaller
        smaller = next((one for one in _smaller(replay) if _breaks(one, oracle)), None)
    return replay


def _breaks(replay: Replay, oracle: str) -> bool:
    violation = play(replay).violation
    return violation is not None and violation.oracle == oracle


def _smaller(replay: Replay) -> Iterator[Replay]:
    """Yield what is a step smaller, the greatest steps first."""
    actions, traffic = replay.actions, replay.traffic
    size = len(actions)
    while size:
        for start in range(0, len(actions), size):
            yield replace(replay, actions=actions[:start] + actions[start + size :])
        size //= 2
    for less in _less(traffic):
        yield replace(replay, traffic=less)


def _less(traffic: Traffic) -> Iterator[Traffic]:
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
