"""The overview: queues with their recent depth, and what the consumers counted in an hour."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.metric_names import Metric
from once.ops.console.charts import BarChart
from once.ops.console.figures import DUPLICATES, Figures
from once.ops.console.rendering import page
from once.ops.console.state import ConsoleState, state_of
from once.ops.status import MAX_AGE
from once.ops.terminal.timestamps import parse_age_option

COLUMNS = (
    ("committed", (Metric.COMMITTED,)),
    ("duplicates", DUPLICATES),
    ("retried", (Metric.RETRIED,)),
    ("quarantined", (Metric.QUARANTINED,)),
    ("held back by the breaker", (Metric.BREAKER_OPEN,)),
)
"""Charts of a consumer: name and the metrics whose sum it shows."""


def _overview(request: Request) -> Response:
    state = state_of(request)
    rows = state.queues.latest().rows
    figures = state.figures.latest()
    functions = {one.name: one.function_name for one in state.deployment.consumers.values()}
    most = parse_age_option(MAX_AGE, option="").total_seconds()
    return page(
        request,
        "overview.html",
        rows=rows,
        stuck={row.consumer: row.stuck(most) for row in rows},
        depths={row.consumer: _depth_chart(state, row.consumer) for row in rows},
        columns=[name for name, _ in COLUMNS],
        activity={name: _charts(figures, function) for name, function in functions.items()},
        source=figures.source,
    )


def _depth_chart(state: ConsoleState, consumer: str) -> BarChart:
    depths = state.queues.depths(consumer)
    return BarChart(depths, f"messages in the queues of {consumer}: {depths[-1]} now")


def _charts(figures: Figures, function: str) -> list[BarChart]:
    return [_chart(name, figures.minutes(function, metrics)) for name, metrics in COLUMNS]


def _chart(name: str, minutes: Sequence[float]) -> BarChart:
    return BarChart(minutes, f"{name} in each minute of the last hour: {sum(minutes):g} in all")


ROUTES = [Route("/", _overview, name="overview")]
