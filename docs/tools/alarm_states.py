"""Evaluates alarms of a template over figures, as CloudWatch does: their states, and their mails.

Only what the alarms of the constructs use is known: `>=`, M of N periods, missing data that are no
fault or one, and a part of metric math. CloudWatch's delays, and the state before it has data, are
left out.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from docs.tools.recorded_metrics import Recording

Json = dict[str, Any]
Figures = Sequence[Mapping[str, float]]
"""The figures of each period, by the name of the metric in the alarm; a missing one has no data."""

HOUR = 60 * 60


def expression_of(alarm: Json) -> ast.expr:
    """Return what an alarm compares with its threshold, in the syntax of Python."""
    texts = [q["Expression"] for q in alarm.get("Metrics", []) if "Expression" in q]
    text = texts[0] if texts else alarm["MetricName"]
    text = text.replace(" AND ", " and ").replace(" OR ", " or ")
    parsed: ast.Expression = ast.parse(text, mode="eval")
    return parsed.body


_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}


def value(node: ast.AST, figures: Figures, at: int) -> float | None:
    """Evaluate an expression for a period; None if there is no data for it.

    Raises:
        ValueError: the expression uses what is not known here.
    """
    if at < 0:
        return None
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return figures[at].get(name)
        case ast.Call(func=ast.Name(id="DIFF"), args=[one]):
            before, now = value(one, figures, at - 1), value(one, figures, at)
            return None if before is None or now is None else now - before
        case ast.Call(func=ast.Name(id=("HOUR" | "DAY") as name)):
            return figures[at][name]
        case ast.Call(func=ast.Name(id=name), args=parts):
            terms = parts[0].elts if isinstance(parts[0], ast.List) else parts
            return FUNCTIONS[name](*(value(each, figures, at) for each in terms))
    parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    found = [known for part in parts if (known := value(part, figures, at)) is not None]
    if len(found) < len(parts):
        return None
    match node:
        case ast.BoolOp(op=by):
            return (all if isinstance(by, ast.And) else any)(found)
        case ast.BinOp(op=by) | ast.Compare(ops=[by]):
            return _OPERATORS[type(by)](*found)
    raise ValueError(ast.dump(node))


def _known(function: Callable[[list[float]], float]) -> Callable[..., float | None]:
    """Return a function of a list, which passes over missing data."""
    return lambda *all_of_it: (
        function(known) if (known := [each for each in all_of_it if each is not None]) else None
    )


FUNCTIONS: dict[str, Callable[..., float | None]] = {
    "MAX": _known(max),
    "SUM": _known(sum),
    "FILL": lambda figure, filling: filling if figure is None else figure,
    "IF": lambda known, then, other: None if known is None else then if known else other,
}
"""Functions of metric math, of the values in one period."""


def period_of(alarm: Json) -> int:
    """Return the period of an alarm, in seconds."""
    metrics = [query["MetricStat"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
    return int((alarm, *metrics)["Period" not in alarm]["Period"])


def values(alarm: Json, figures: Figures, begin: int = 0) -> list[float | None]:
    """Return what an alarm compares with its threshold, for each period; None without data.

    Args:
        begin: the first period since Monday, 00:00 UTC.
    """
    times = [(begin + n) * period_of(alarm) // HOUR for n in range(len(figures))]
    timed = [
        {**each, "HOUR": time % 24, "DAY": time // 24 % 7 + 1}
        for each, time in zip(figures, times, strict=True)
    ]
    node = expression_of(alarm)
    return [value(node, timed, n) for n in range(len(timed))]


def states(alarm: Json, figures: Figures, begin: int = 0) -> str:
    """Return the state of an alarm after each period: `A` in ALARM, `_` in OK."""
    last = alarm["EvaluationPeriods"]
    missing = alarm["Threshold"] if alarm["TreatMissingData"] == "breaching" else 0
    found = values(alarm, figures, begin)
    breaching = [(missing if each is None else each) >= alarm["Threshold"] for each in found]
    needed = alarm.get("DatapointsToAlarm", last)
    counts = (sum(breaching[max(0, n - last + 1) : n + 1]) for n in range(len(found)))
    return "".join("A" if count >= needed else "_" for count in counts)


def begins(found: str) -> list[int]:
    """Return the periods in which an alarm begins, each of which sends a mail."""
    return [match.start() for match in re.finditer("(?<!A)A", found)]


def figures_in(recording: Recording, template: Json, alarm: Json) -> Figures:
    """Return the figures of an alarm's metrics in a recording."""
    period = period_of(alarm)
    series = {
        key: recording.figures(owner_of(template, metric), metric["MetricName"], stat, period)
        for key, metric, stat in _metrics_of(alarm)
    }
    return [
        {key: figure for key, figures in series.items() if (figure := figures[n]) is not None}
        for n in range(recording.periods(period))
    ]


def _metrics_of(alarm: Json) -> Iterator[tuple[str, Json, str]]:
    """Yield the name of each metric in the alarm, the metric, and its statistic."""
    if "MetricName" in alarm:
        yield alarm["MetricName"], alarm, alarm["Statistic"]
    for query in alarm.get("Metrics", []):
        if "MetricStat" in query:
            yield query["Id"], query["MetricStat"]["Metric"], query["MetricStat"]["Stat"]


def owner_of(template: Json, metric: Json) -> str:
    """Return the owner of a metric: a function by its name, another resource by its construct.

    A metric of the whole account has none.
    """
    dimensions = metric.get("Dimensions", [])
    return named(template, dimensions[0]["Value"]) if dimensions else ""


def named(template: Json, value: Any) -> str:
    """Return a text, or the name of the function or the path of the construct that it refers to."""
    match value:
        case {"Ref": name} | {"Fn::GetAtt": [name, _]} if name in template["Resources"]:
            resource = template["Resources"][name]
            path = resource["Metadata"]["aws:cdk:path"].split("/")[1:-1]
            if resource["Type"] == "AWS::Lambda::Function":
                return str(resource["Properties"]["FunctionName"])
            return "/".join(path)
        case {"Fn::GetStackOutput": {"OutputName": name}} | {"Ref": name}:
            return str(name)
    return str(value)
