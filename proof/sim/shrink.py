"""The smallest scenario that still breaks the same promise."""

from collections.abc import Iterator
from dataclasses import replace

from proof.shop.traffic import Traffic
from proof.sim.scenario import Scenario, play


def shrunk(scenario: Scenario, oracle: str) -> Scenario:
    """Leave out whatever the violation does not need: actions, orders, copies.

    Args:
        scenario: one that breaks a promise.
        oracle: which; another one does not count.
    """
    smaller: Scenario | None = scenario
    while smaller is not None:
        scenario = smaller
        smaller = next((one for one in _smaller(scenario) if _breaks(one, oracle)), None)
    return scenario


def _breaks(scenario: Scenario, oracle: str) -> bool:
    violation = play(scenario).violation
    return violation is not None and violation.oracle == oracle


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield what is a step smaller, the greatest steps first."""
    actions, traffic = scenario.actions, scenario.traffic
    size = len(actions)
    while size:
        for start in range(0, len(actions), size):
            yield replace(scenario, actions=actions[:start] + actions[start + size :])
        size //= 2
    for less in _less(traffic):
        yield replace(scenario, traffic=less)


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
