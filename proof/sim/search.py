"""Many seeds: with the real code, and with broken protocols made of it."""

import random
from collections import Counter
from dataclasses import dataclass, field

from proof.mutants import MUTANTS
from proof.shop.course import Course, course_of
from proof.shop.traffic import drawn
from proof.world.plan import chance

_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""How likely a call is to meet a fault: sometimes a few do, sometimes nearly all."""
_MISHAPS = 0.1


@dataclass(slots=True)
class Found:
    """What a number of seeds came to. `courses` are those that broke a promise."""

    seeds: int = 0
    calls: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    courses: list[Course] = field(default_factory=list)

    def add(self, course: Course) -> None:
        """Count one more run."""
        self.seeds += 1
        self.calls += len(course.log)
        self.fired.update(course.fired)
        if course.violation is not None:
            self.courses.append(course)

    def merge(self, other: "Found") -> None:
        """Count the runs that somebody else has made."""
        self.seeds += other.seeds
        self.calls += other.calls
        self.fired.update(other.fired)
        self.courses += other.courses


def by_chance(seed: int) -> Course:
    """Run what a seed makes: its traffic, its turns and its faults."""
    rate = random.Random(f"rate {seed}").choice(_RATES)
    return course_of(chance(seed, rate, _MISHAPS), drawn(seed), seed)


def searched(seeds: range) -> Found:
    """Run these seeds, one after the other."""
    found = Found()
    for seed in seeds:
        found.add(by_chance(seed))
    return found


def caught(mutant: str, most: int) -> Course | None:
    """Run a broken protocol until it is caught; None if no seed out of so many does.

    Args:
        mutant: its name among `proof.mutants.MUTANTS`.
        most: how many seeds.
    """
    with MUTANTS[mutant]():
        courses = map(by_chance, range(most))
        return next((course for course in courses if course.violation is not None), None)
