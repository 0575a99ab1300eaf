"""Dead letters: in groups that failed alike, and one by one."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from once.ops.console.letter_groups import VerdictCounts, letter_groups
from once.ops.console.letter_query import letter_options, query_text, query_values
from once.ops.console.letter_reading import LetterReading, LetterRow, read_letters
from once.ops.console.rendering import is_background, page
from once.ops.console.state import state_of
from once.ops.dead_letters.letter import DIED
from once.ops.dead_letters.selection import LetterOptions
from once.schema import RELAY, UNROUTED, Reason

PAGE_LETTERS = 100


def _groups(request: Request) -> Response:
    options, reading, rows = _read(request)
    return page(
        request,
        "dead_letters.html",
        **_values(options, reading),
        groups=letter_groups(rows),
        number=len(rows),
        reasons=sorted({row.reason or DIED for row in reading.rows} | {*map(str, Reason), DIED}),
        consumers=[*state_of(request).deployment.consumers, RELAY, UNROUTED],
    )


def _letters(request: Request) -> Response:
    options, reading, rows = _read(request)
    rows.sort(key=lambda row: (row.sent_at, row.message_id))
    number = max(1, -(-len(rows) // PAGE_LETTERS))
    here = min(number, _page_number(request))
    return page(
        request,
        "dead_letter_list.html",
        **_values(options, reading),
        rows=_part(rows, here),
        number=len(rows),
        verdicts=VerdictCounts.of(rows),
        here=here,
        pages=number,
    )


def _read(request: Request) -> tuple[LetterOptions, LetterReading, list[LetterRow]]:
    state = state_of(request)
    options = letter_options(request.query_params, state.deployment.service)
    chosen = options.letter_filter()
    # All letters are read, and filtered here, so that a further filter receives none.
    reading = _reading(request, None)
    if options.consumer and not reading.complete:
        reading = _reading(request, options.consumer)
    rows = [
        row
        for row in reading.rows
        if options.consumer in (None, row.consumer) and row.matches(chosen)
    ]
    return options, reading, rows


def _reading(request: Request, consumer: str | None) -> LetterReading:
    state = state_of(request)
    return state.letters.get(
        ("letters", consumer),
        lambda: read_letters(state.deployment, consumer),
        keep=is_background(request),
    )


def _values(options: LetterOptions, reading: LetterReading) -> dict[str, Any]:
    values = query_values(options)
    return {
        "given": values,
        "reading": reading,
        "query": lambda **more: query_text(values | more),
    }


def _part(rows: Sequence[LetterRow], number: int) -> Sequence[LetterRow]:
    return rows[(number - 1) * PAGE_LETTERS : number * PAGE_LETTERS]


def _page_number(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return max(1, int(text)) if text.isdecimal() and len(text) < 6 else 1


ROUTES = [
    Route("/dead-letters", _groups, name="dead-letters"),
    Route("/dead-letters/letters", _letters, name="dead-letter-list"),
]
