"""Reports of the conformance kit, made by hand."""

from redelivery import Difference, Fault, Kind, Report, Result


def result(
    fault: Fault, *kinds: Kind, fired: bool = True, steps: int = 2, name: str = ""
) -> Result:
    found = tuple(Difference(kind, "orders o-1", 1, "app.py:7", "as expected") for kind in kinds)
    course = tuple(f"step {number}" for number in range(1, steps + 1))
    return Result(name or f"{fault}@1.1", fault, fired, found, course)


def report(*results: Result, not_run: dict[Fault, str] | None = None, right: bool = True) -> Report:
    return Report(
        handler="app.handler",
        seed=1,
        results=results,
        course=(),
        ignored={},
        not_run=not_run or {},
        controls={"acknowledges first": right},
        seconds=0.1,
    )
