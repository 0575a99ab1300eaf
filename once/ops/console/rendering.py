"""Rendering of pages from Jinja's templates, which escape every value; bar charts as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import FormData as FormData
from starlette.requests import Request as Request
from starlette.responses import HTMLResponse
from starlette.responses import Response as Response

from once.ops.terminal import UNKNOWN, escape_controls, format_age, format_time

NAVIGATION = (
    ("overview", "Overview"),
    ("dead-letters", "Dead letters"),
    ("message", "Message"),
    ("effects", "Effects"),
    ("outbox", "Outbox"),
    ("webhooks", "Webhooks"),
    ("audit-log", "Audit log"),
)
"""Route and title of each page in the navigation."""

_CHART_WIDTH, _CHART_HEIGHT = 160, 32
"""Size of a chart, in units of its view box."""


@dataclass(frozen=True, slots=True)
class BarChart:
    """A chart of values, 0 or more, at equal distances, the oldest first.

    The label says in words what it shows, for those who do not see it.
    """

    values: Sequence[float]
    label: str

    @property
    def bars(self) -> list[dict[str, float]]:
        """A rectangle for each value over 0; the largest is as high as the chart."""
        step, most = _CHART_WIDTH / max(1, len(self.values)), max(self.values, default=0)
        bars = []
        for position, value in enumerate(self.values):
            if value:
                height = max(1.0, _CHART_HEIGHT * value / most)  # what is small stays visible
                x, y = position * step, _CHART_HEIGHT - height
                bar = {"x": x, "y": y, "width": step - 1, "height": height}
                bars.append({name: round(size, 2) for name, size in bar.items()})
        return bars


def _age(value: float | timedelta | None) -> str:
    if value is None:
        return UNKNOWN
    return format_age(value if isinstance(value, timedelta) else timedelta(seconds=value))


_templates = Environment(
    loader=PackageLoader("once.ops.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # Control characters and those that change the direction of text deceive a reader too.
    finalize=lambda value: escape_controls(value) if type(value) is str else value,
)
_templates.filters["age"] = _age
_templates.filters["moment"] = lambda value: UNKNOWN if value is None else format_time(value)


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page of a template, which extends `base.html`; all values are escaped."""
    console = request.app.state.console  # a `ConsoleState`, whose module imports this one
    text = _templates.get_template(template).render(
        **values,
        request=request,
        link=lambda name, **parts: request.url_for(name, **parts).path,
        service=console.deployment.service,
        read_only=console.read_only,
        navigation=NAVIGATION,
    )
    return HTMLResponse(text, status_code=status)


def below_root(request: Request, name: str, **parts: str) -> str:
    """Return the path of a route below the console's root, as `Job.back` has it."""
    root = request.url_for("overview").path
    return request.url_for(name, **parts).path.removeprefix(root)
