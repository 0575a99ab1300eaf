"""Rounds of traffic, which are sent until enough faults have occurred on any machine."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from demo.report import console

MOST_ROUNDS = 12

_T = TypeVar("_T")


def send_rounds(
    send: Callable[[int], _T],
    count: Callable[[Sequence[_T]], Mapping[str, float]],
    minimum: Mapping[str, int],
    most: int = MOST_ROUNDS,
) -> list[_T]:
    """Send rounds of traffic while a figure is below its minimum, and return their results.

    A fast machine has processed a round before many faults have met it: it is sent more rounds.

    Args:
        send: sends one round, whose number counts from 0.
        count: returns figures of the rounds until now; the others of the minimum are ignored.
        minimum: least value of figures.
        most: the number of rounds after which it ends. What is missing then is printed.
    """
    rounds: list[_T] = []
    while True:
        figures = count(rounds)
        few = [name for name, figure in figures.items() if figure < minimum.get(name, 0)]
        if not few:
            return rounds
        told = ", ".join(f"{name} is {figures[name]}, and must be {minimum[name]}" for name in few)
        if len(rounds) >= most:
            console.print(f"[red]{told}: {most} rounds of traffic brought no more", soft_wrap=True)
            return rounds
        if rounds:
            console.print(f"round {len(rounds) + 1}: {told}", soft_wrap=True)
        rounds.append(send(len(rounds)))
