"""Checks at synthesis, before anything is deployed.

In: properties of consumers, configuration and the finished construct tree. Out: faults, each with
its remedy. Used by the constructs of `once.cdk` and by the apps that use them.
"""

from collections.abc import Iterator, Mapping


def faults_where(rules: Mapping[str, object]) -> Iterator[str]:
    """Yield each fault, a text with its remedy, whose condition holds."""
    return (fault for fault, broken in rules.items() if broken)


def outside(name: str, number: int | None, allowed: range, why: str = "") -> Iterator[str]:
    """Yield the fault of a number that is not among the allowed ones; None is always allowed."""
    if number is not None and number not in allowed:
        yield f"{name}={number}; choose {allowed.start} to {allowed.stop - 1}{why}"
