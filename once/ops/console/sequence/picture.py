"""Sequence picture: lanes and arrows with their coordinates, the same for the same steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from once.ops.console.sequence.steps import (
    DEAD_LETTERS,
    PRODUCER,
    PROVIDER,
    TABLE,
    TOPIC,
    Step,
)

MOST_STEPS = 60
"""Most steps that a picture shows."""

_LANE_WIDTH, _STEP_HEIGHT = 168, 34
_TIME_WIDTH, _TOP, _BOTTOM = 92, 56, 14
_CHARACTER_WIDTH = 6.6
_HEAD = 7
_NAME_CHARACTERS = 22
_FIRST, _LAST = (PRODUCER, TOPIC), (PROVIDER, TABLE, DEAD_LETTERS)


@dataclass(frozen=True, slots=True)
class Lane:
    """A part of the service: a vertical line at `x`; its whole name, and what fits of it."""

    name: str
    shown: str
    x: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A step from `x1` to `x2`; `head` has its head's points, `label` what fits of its text."""

    x1: int
    x2: int
    y: int
    head: str
    label: str
    step: Step

    @property
    def middle(self) -> int:
        """The middle of its label."""
        return (self.x1 + self.x2) // 2


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture; `left_out` is the number of steps that it does not show."""

    width: int
    height: int
    bottom: int
    lanes: Sequence[Lane]
    arrows: Sequence[Arrow]
    left_out: int


def sequence_picture(steps: Sequence[Step]) -> Picture:
    """Return the picture of the first steps."""
    shown = steps[:MOST_STEPS]
    lanes = _lanes(shown)
    places = {lane.name: lane.x for lane in lanes}
    bottom = _TOP + _STEP_HEIGHT * len(shown) + _BOTTOM
    return Picture(
        width=_TIME_WIDTH + _LANE_WIDTH * len(lanes),
        height=bottom + 4,
        bottom=bottom,
        lanes=lanes,
        arrows=[_arrow(number, step, places) for number, step in enumerate(shown)],
        left_out=len(steps) - len(shown),
    )


def _lanes(steps: Sequence[Step]) -> list[Lane]:
    used = dict.fromkeys(name for step in steps for name in (step.source, step.target))
    consumers = [name for name in used if name not in (*_FIRST, *_LAST)]
    names = [name for name in (*_FIRST, *consumers, *_LAST) if name in used]
    middle = _TIME_WIDTH + _LANE_WIDTH // 2
    return [
        Lane(name, _cut(name, _NAME_CHARACTERS), middle + _LANE_WIDTH * number)
        for number, name in enumerate(names)
    ]


def _arrow(number: int, step: Step, places: dict[str, int]) -> Arrow:
    x1, x2 = places[step.source], places[step.target]
    y = _TOP + _STEP_HEIGHT * (number + 1) - 8
    back = x2 - _HEAD if x2 > x1 else x2 + _HEAD
    fits = int(abs(x2 - x1) / _CHARACTER_WIDTH)
    return Arrow(
        x1=x1,
        x2=x2,
        y=y,
        head=f"{x2},{y} {back},{y - 4} {back},{y + 4}",
        label=_cut(step.label, fits),
        step=step,
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
