"""The overview: queues with their recent depth, and what the consumers counted in an hour."""

from datetime import UTC, datetime

from once.names import Metric
from once.ops import status, terminal
from once.ops.console.figures import read_figures
from once.ops.console.rendering import BarChart, Request, Response, page
from once.ops.console.state import REFRESH_SECONDS, state_of

COLUMNS = {
    "committed": [Metric.COMMITTED],
    "duplicates": [Metric.REDELIVERED, Metric.REDRIVEN, Metric.RESENT],
    "retried": [Metric.RETRIED],
    "quarantined": [Metric.QUARANTINED],
    "held back by the breaker": [Metric.BREAKER_OPEN],
}
"""Charts of a consumer: name and the metrics whose sum it shows."""
METRICS = [metric for metrics in COLUMNS.values() for metric in metrics]


def overview_page(request: Request) -> Response:
    """Return the page of queues and of what the consumers counted."""
    state = state_of(request)
    rows = state.queues.latest()
    functions = {one.name: one.function_name for one in state.deployment.consumers.values()}
    # CloudWatch bills each metric that is read: a page that is opened shows what a refresh shows.
    figures = state.readings.latest(
        "figures",
        lambda: read_figures([*functions.values()], datetime.now(UTC), METRICS),
        REFRESH_SECONDS,
    )

    def depth_chart(consumer: str) -> BarChart:
        depths = state.queues.depths(consumer)
        return BarChart(depths, f"messages in the queues of {consumer}: {depths[-1]} now")

    def chart(name: str, minutes: list[float]) -> BarChart:
        return BarChart(minutes, f"{name} in each minute of the last hour: {sum(minutes):g} in all")

    most = terminal.parse_age_option(status.MAX_AGE, option="").total_seconds()
    return page(
        request,
        "overview.html",
        rows=rows,
        stuck={row.consumer: row.stuck(most) for row in rows},
        depths={row.consumer: depth_chart(row.consumer) for row in rows},
        columns=[*COLUMNS],
        activity={
            consumer: [
                chart(name, figures.minutes(function, metrics)) for name, metrics in COLUMNS.items()
            ]
            for consumer, function in functions.items()
        },
        source=figures.source,
    )
