"""Webhooks: the captures of the ingress, one of them with its exact body, and their replay."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from typer import BadParameter

from once.ops.console.jobs import Job, Progress, number_field
from once.ops.console.rendering import FormData, Request, Response, page
from once.ops.console.state import ConsoleState, max_age, state_of
from once.ops.errors import OpsError
from once.ops.terminal import counted, first_lines
from once.ops.webhooks import capture_text, replay
from once.ops.webhooks.captures import LIST_PERIOD, CaptureOptions, Captures
from once.webhooks.captured_webhook import Capture, CaptureStanding

MAX_READ = 5000
"""Maximum number of entries of the index that a page reads."""
_MAX_SHOWN = 100
_FILTERS = ("endpoint", "type", "since", "until", "standing")


def webhooks_page(request: Request) -> Response:
    state, given = state_of(request), _filters(request.query_params)
    if state.deployment.webhooks is None:
        return page(request, "webhooks.html", given=given, deployed=None, captures=[], more=False)

    conditions = CaptureOptions(**_options(given)).conditions(LIST_PERIOD)

    def read() -> list[Capture]:
        return [*islice(_captures(state).matching(conditions), _MAX_SHOWN + 1)]

    reading = state.readings.latest(("webhooks", *given.values()), read, max_age(request))
    found = reading.value
    return page(
        request,
        "webhooks.html",
        reading=reading,
        given=given,
        deployed=state.deployment.webhooks,
        captures=found[:_MAX_SHOWN],
        more=len(found) > _MAX_SHOWN,
        **_common_values(state),
    )


def webhook_page(request: Request) -> Response:
    state = state_of(request)
    captures = _captures(state)
    capture = captures.get(request.query_params.get("key", ""))
    try:
        body, fault = capture_text.body_text(captures.body(capture)), None
    except OpsError as error:
        body, fault = None, str(error)
    return page(
        request,
        "webhook.html",
        capture=capture,
        rows=capture_text.capture_rows(capture, datetime.now(UTC)),
        body=body,
        fault=fault,
        **_common_values(state),
    )


def _common_values(state: ConsoleState) -> dict[str, Any]:
    """Return the choices of the forms, and the module with the texts of a capture."""
    return {
        "standings": [one.value for one in CaptureStanding],
        "consumers": [name for name, one in state.deployment.consumers.items() if one.events],
        "capture_text": capture_text,
    }


def _captures(state: ConsoleState) -> Captures:
    return Captures.of(state.deployment, MAX_READ)


def _filters(given: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of the filter, as texts."""
    return {name: str(given.get(name) or "").strip() for name in _FILTERS}


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of these fields."""
    standing = given["standing"]
    if standing and standing not in [*CaptureStanding]:
        raise BadParameter(
            f"{standing!r} is none of {', '.join(CaptureStanding)}", param_hint="standing"
        )
    return {
        "endpoint": given["endpoint"] or None,
        "webhook_type": given["type"] or None,
        "since": given["since"] or None,
        "until": given["until"] or None,
        "standing": CaptureStanding(standing) if standing else None,
    }


def plan_replay(request: Request, form: FormData) -> Job:
    """Return the job of a form, with the verdicts of `once webhooks replay` without --yes."""
    state = state_of(request)
    given = {name: str(value).strip() for name, value in form.items()}
    names = [str(one) for one in form.getlist("name") if one]
    fields = dict.fromkeys(_FILTERS, "") if names else _filters(given)
    asked = replay.ReplayRequest(
        **_options(fields),
        names=names,
        queue=given.get("queue") or None,
        url=given.get("url") or None,
        allow_private="allow_private" in given,
        unsafe="unsafe" in given,
        rate=number_field(form, 10, 0.1, 1000),
    )
    judged = asked.plan(state.deployment, _captures(state))
    judged.run()

    def work(why: str | None, progress: Progress) -> None:
        with judged.sending(state.deployment, why) as run:
            progress.total = len(run.chosen)

            def sent() -> None:
                progress.advance(len(run.results), run.counts)
                if len(run.results) < len(run.chosen):
                    progress.check_stop(lambda: run.stopped_text)

            run.run(sent)

    number, lines = judged.number(*replay.DONE), [str(one) for one in judged.results]
    return Job(
        title=f"Replay {counted(number, 'webhook')} to {asked.queue or 'a URL'}",
        plan=first_lines(lines, replay.MAX_LINES),
        changes=number,
        work=work,
        undo="What was sent cannot be taken back. A consumer recognises what it has committed.",
        back="webhooks",
    )
