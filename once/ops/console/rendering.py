"""Rendering of pages from Jinja's templates, which escape every value; bar charts as SVG."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.datastructures import FormData as FormData
from starlette.requests import Request as Request
from starlette.responses import HTMLResponse
from starlette.responses import Response as Response

from once.ops.errors import NotFoundError
from once.ops.explain import Explanation, explanation
from once.ops.terminal import (
    UNKNOWN,
    escape_controls,
    format_age,
    format_distance,
    format_time,
    parse_timestamp,
)

NAVIGATION = (
    ("overview", "Overview"),
    ("dead-letters", "Dead letters"),
    ("retries", "Retrying"),
    ("message", "Message"),
    ("effects", "Effects"),
    ("outbox", "Outbox"),
    ("webhooks", "Webhooks"),
    ("operator-log", "Operator log"),
)
"""Route and title of each page in the navigation."""

_FOLDED_LINES, _FOLDED_CHARACTERS, _MAX_CHARACTERS = 40, 4_000, 12_000
"""Lines and characters of a long text that a page shows folded; and the most that it shows at all,
which keeps pages small."""

_LINKED = re.compile(
    r"(?P<id>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)"
    r"|`(?P<code>(?:once explain (?P<subject>[a-z#-]+))|[^`\n]{1,100})`"
)


@dataclass(frozen=True, slots=True)
class BarChart:
    """A chart of values, 0 or more, at equal distances, the oldest first.

    The label says in words what it shows, for those who do not see it. The bars lie between `begin`
    and `end`. Charts side by side share a `scale`, the value of the highest bar. The class of their
    colour is `kind`.
    """

    values: Sequence[float]
    label: str
    begin: datetime
    end: datetime
    scale: float = 0
    kind: str = ""

    @property
    def most(self) -> float:
        return max(self.values, default=0)


def _age(value: float | timedelta | None) -> str:
    if value is None:
        return UNKNOWN
    return format_age(value if isinstance(value, timedelta) else timedelta(seconds=value))


def _time(moment: datetime | None, shown: str = "") -> str:
    """Return a time as its age, with the exact one beside; or as a text, which the zone changes."""
    if moment is None:
        return UNKNOWN
    exact, left = format_time(moment), moment - datetime.now(UTC)
    is_now = timedelta(seconds=-1) <= left < timedelta(minutes=1)  # clocks differ
    ago = "now" if is_now else format_distance(left)
    element = Markup('<time datetime="{}" title="{}"{}>{}</time>')
    machine = moment.astimezone(UTC).isoformat(timespec="seconds")
    return element.format(machine, exact, Markup(" data-exact") if shown else "", shown or ago)


@pass_context
def _linked(context: Context, text: object) -> Markup:
    """Return a text with links at message ids and at commands that explain, times that follow the
    zone, and other commands as code."""
    parts: list[str] = []
    end, whole = 0, escape_controls(str(text))
    for found in _LINKED.finditer(whole):
        parts.append(Markup.escape(whole[end : found.start()]))
        if name := found["id"]:
            element = Markup('<a href="{}?key={}">{}</a>')
            parts.append(element.format(context["link"]("message"), name, name))
        elif found["time"]:
            parts.append(_time(parse_timestamp(f"{found[0][:10]}T{found[0][11:19]}"), found[0]))
        elif subject := found["subject"]:
            address = context["link"]("documentation", subject=subject)
            parts.append(Markup('<a href="{}"><code>{}</code></a>').format(address, found["code"]))
        else:
            parts.append(Markup("<code>{}</code>").format(found["code"]))
        end = found.end()
    return Markup("").join([*parts, Markup.escape(whole[end:])])


def _folded(text: str) -> tuple[str, str, int]:
    """Return the first lines of a text, the others as far as they are shown, and their number."""
    lines = text.splitlines(keepends=True)
    first = "".join(lines[:_FOLDED_LINES])[:_FOLDED_CHARACTERS]
    rest = text[len(first) :]
    more = len(text) - _MAX_CHARACTERS
    if more > 0:
        rest = f"{text[len(first) : _MAX_CHARACTERS]}\n… and {more} more characters"
    return first, rest, rest.count("\n") + 1


_templates = Environment(
    loader=PackageLoader("once.ops.console"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # Control characters and those that change the direction of text deceive a reader too.
    finalize=lambda value: escape_controls(value) if type(value) is str else value,
)
_templates.filters |= {"age": _age, "ago": _time, "linked": _linked, "folded": _folded}


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page of a template, which extends `base.html`; all values are escaped.

    If `reading` is among the values, the page tells the age of this reading.
    """
    console = request.app.state.console  # a `ConsoleState`, whose module imports this one
    text = _templates.get_template(template).render(
        **values,
        request=request,
        link=lambda name, **parts: request.url_for(name, **parts).path,
        service=console.deployment.service,
        place=console.place,
        read_only=console.read_only,
        navigation=NAVIGATION,
        command=command_of(request, console.deployment.service) if status == 200 else None,
    )
    return HTMLResponse(text, status_code=status)


def documentation_page(request: Request) -> HTMLResponse:
    """Return the page that `once explain` shows; its links lead to the pages of their subjects."""
    found = explanation(request.path_params["subject"])
    if found is None:
        raise NotFoundError("no page has this name: `once explain` lists them")
    return page(request, "documentation.html", title=found.title, body=_html(request, found))


def _html(request: Request, found: Explanation) -> Markup:
    def link(label: str, subject: str) -> str:
        return f"[{label}]({request.url_for('documentation', subject=subject).path})"

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Markup(markdown.render(found.linked(link)))  # noqa: S704, the text is this library's


_COMMANDS = {
    "overview": "status",
    "retries": "retries",
    "dead-letters": "dlq list",
    "dead-letter-list": "dlq list",
    "dead-letter": "dlq show",
    "message": "trace",
    "effects": "effects list",
    "outbox": "outbox republish --dry-run --since 1h",
    "webhooks": "webhooks list",
    "webhook": "webhooks show",
    "documentation": "explain",
}
"""The command that shows the same as a page, by its route."""
_ARGUMENTS = ("key", "subject")
"""Parameters of an address that are arguments of the command; of a list, an option."""


def command_of(request: Request, service: str) -> str | None:
    """Return the command that shows in a terminal what a page shows, with the page's filter."""
    command = _COMMANDS.get(getattr(request.scope.get("route"), "name", ""))
    if command is None:
        return None
    given = {k: v for k, v in request.query_params.items() if v and k != "page"}
    given |= {k: str(v) for k, v in request.path_params.items() if k != "path"}
    named = [given.pop("message_id")] if "message_id" in given else []
    if command.split()[-1] != "list":
        named += [given.pop(name) for name in _ARGUMENTS if name in given]
    options = [part for name, value in given.items() for part in (f"--{name}", value)]
    scope = [] if command == "explain" else ["--service", service]
    return shlex.join(["once", *command.split(), *named, *options, *scope])


def below_root(request: Request, name: str, **parts: str) -> str:
    """Return the path of a route below the console's root, as `Job.back` has it."""
    root = request.url_for("overview").path
    return request.url_for(name, **parts).path.removeprefix(root)


def query_text(values: Mapping[str, object]) -> str:
    """Return parameters as the end of an address, with its question mark."""
    return f"?{urlencode(values)}" if values else ""
