"""Checks at synthesis, before anything is deployed.

In: properties of consumers, configuration and the finished construct tree. Out: faults, each with
its remedy. Used by the constructs of `once.cdk` and by the apps that use them.
"""

from collections.abc import Iterator, Mapping

from msgspec import Meta


def faults_where(rules: Mapping[str, object]) -> Iterator[str]:
    """Yield each fault, a text with its remedy, whose condition holds."""
    return (fault for fault, broken in rules.items() if broken)


def outside(name: str, number: int | None, allowed: Meta, why: str = "") -> Iterator[str]:
    """Yield the fault of a number that is not in the range of `allowed`; None always is."""
    least, most = allowed.ge or 0, allowed.le
    if number is not None and not least <= number <= (number if most is None else most):
        choice = f"{least} or more" if most is None else f"{least} to {most}"
        yield f"{name}={number}; choose {choice}{why}"
