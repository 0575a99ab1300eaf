"""A crash: a parser, an input that it does not stand, and how to see it again."""

import json
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from proof import report
from proof.fuzz.guard import guarded
from proof.fuzz.shrink import shrunk
from proof.fuzz.target import Broken, Target

FILES = "fuzz-crash-{}"


@dataclass(frozen=True, slots=True)
class Crash:
    """What a run found.

    Attributes:
        parser: the target's name.
        seed: of the run, and `number` that of the input: together they draw it again.
        error: what happened, without what is particular to the input.
        input: the smallest input that was found to fail in this way.
    """

    parser: str
    seed: int
    number: int
    error: str
    input: Any

    @classmethod
    def of(cls, target: Target, seed: int, number: int, found: Any, error: str) -> Self:
        """Return a crash with its input made as small as it goes."""
        smallest = shrunk(found, lambda smaller: failure(target, smaller) == error)
        return cls(target.name, seed, number, error, smallest)

    def write(self, number: int) -> Path:
        """Write it to `reports/fuzz-crash-<number>.json`, from where it can be replayed."""
        return report.write(FILES.format(number), asdict(self))

    def __str__(self) -> str:
        found = json.dumps(self.input)
        return (
            f"{self.parser}, seed {self.seed}, input {self.number}: {self.error}\n  {found:.1000}"
        )


def failure(target: Target, found: Any) -> str | None:
    """Check an input, and return what went wrong; None where nothing did."""
    try:
        guarded(target.check, found)
    except Broken as error:
        return f"{error}"
    except Exception as error:  # whatever it is: a target lets pass nothing that may come out
        return _described(error)
    return None


def replayed(file: Path, targets: Sequence[Target]) -> str | None:
    """Check the input of a crash once more; return what goes wrong now, None where nothing does.

    Args:
        file: a crash that was written.
        targets: the parsers, one of which it is about.
    """
    crash = json.loads(file.read_text())
    [target] = [target for target in targets if target.name == crash["parser"]]
    return failure(target, crash["input"])


def _described(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.name}"
