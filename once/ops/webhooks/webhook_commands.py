"""The commands `webhooks list`, `show`, `replay`, `send` and `listen`.

`send` signs a test webhook as the endpoint's provider would.
"""

import json
import os
import shlex
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from botocore.exceptions import BotoCoreError
from typer import Argument, BadParameter, Option

from once.errors import OnceError
from once.events.strict_json import parse
from once.names import CLOCK_MARGIN_SECONDS
from once.ops import operator_changes, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedWebhooks
from once.ops.errors import OpsError, StoppedError
from once.ops.progress import find_deployment, progress, saying
from once.ops.terminal import console, error_console, format_time, print_json
from once.ops.webhooks import capture_text
from once.ops.webhooks._http import (
    HttpDestination,
    NoResponse,
    NotSent,
    Unsendable,
    is_loopback,
    send_request,
)
from once.ops.webhooks.captures import (
    LIST_PERIOD,
    SEARCH_PERIOD,
    CaptureFilter,
    CaptureOptions,
    Captures,
    EndpointOption,
    SinceOption,
    TypeOption,
    UntilOption,
    webhooks_of,
)
from once.ops.webhooks.replay import DONE, MAX_LINES, ReplayRequest, ReplayRun, resend
from once.webhooks.captured_webhook import Capture
from once.webhooks.endpoint import Endpoint
from once.webhooks.signature import KEPT_SECONDS, sign

OVERLAP = timedelta(minutes=2)
"""Each look at the index begins this long before the last one ended. A capture has the time of its
receipt. It is committed seconds later, by a clock that may be slow, and then reaches the index."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_SHORTEST_SECONDS, _LONGEST_SECONDS = 1.0, 5.0
"""Time between two looks at the index: the shortest after a webhook, the longest without any."""


@dataclass(slots=True, kw_only=True)
class Listener:
    """Forwards captures to a port of this machine, and prints a line for each.

    With `skip`, captures that exist at the first look are left out.
    """

    captures: Captures
    conditions: CaptureFilter
    destination: HttpDestination
    skip: bool
    as_json: bool
    number: int = 0
    last: str | None = None
    _position: datetime = _EPOCH
    _seen: dict[tuple[str, int], datetime] = field(default_factory=dict)

    def run(self) -> None:
        pause = _SHORTEST_SECONDS
        while True:
            try:
                found = self._new(datetime.now(UTC))
            except BotoCoreError as error:  # the network of a laptop comes and goes
                error_console.print(f"no look at the captures: {error}", soft_wrap=True)
                found = []
            for capture in found:
                self._forward(capture)
            pause = _SHORTEST_SECONDS if found else min(2 * pause, _LONGEST_SECONDS)
            time.sleep(pause)

    def _new(self, now: datetime) -> list[Capture]:
        """Return the captures that are new in the index since the last look, oldest first."""
        begin = max(self.conditions.since, min(self._position, now) - OVERLAP)
        self.captures.read = 0
        ahead = now + timedelta(seconds=CLOCK_MARGIN_SECONDS)
        period = CaptureFilter(since=begin, until=ahead, endpoint=self.conditions.endpoint)
        found = {(one.pk, one.received_at): one for one in self.captures.matching(period)}
        new = [one for name, one in reversed(found.items()) if name not in self._seen]
        self._seen = {name: at for name, at in self._seen.items() if at >= begin}
        self._seen |= {name: capture_text.received_at(one) for name, one in found.items()}
        self._position = max([self._position, *map(capture_text.received_at, new)])
        skipped, self.skip = self.skip, False
        return [] if skipped else [*filter(self.conditions.matches, new)]

    def _forward(self, listed: Capture) -> None:
        try:
            capture = self.captures.get(listed.pk)
            answer = self._sent(capture, self.captures.body(capture))
        except OpsError as error:
            answer = f"not forwarded: {error}"
        else:
            self.number += 1
        self.last = capture_text.received_at(listed).isoformat(timespec="milliseconds")
        if self.as_json:
            print_json({**capture_text.capture_json(listed), "answer": answer})
        else:
            at = format_time(capture_text.received_at(listed))
            console.print(f"{at}  {capture_text.capture_line(listed)}  {answer}", soft_wrap=True)

    def _sent(self, capture: Capture, body: bytes) -> str:
        """Return the answer; waits while nothing takes connections."""
        pause = _SHORTEST_SECONDS
        while True:
            try:
                return str(resend(self.destination, capture, body))
            except (NoResponse, Unsendable) as error:  # perhaps processed: it is not sent twice
                return str(error)
            except NotSent as error:
                if pause == _SHORTEST_SECONDS:
                    error_console.print(f"waiting: {error}", soft_wrap=True)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SECONDS)


_FOR_THE_OWNER = 0o600
_NOT_HERE = (
    "which is not this machine: --to takes addresses such as http://localhost:3000/path, and "
    "`once webhooks replay ID --to-url URL` sends to others"
)

_IdArgument = Annotated[
    str,
    Argument(
        metavar="ID",
        help=(
            "The provider's id, a dedup key, or the beginning of a key, of its hash or of a body's "
            "SHA-256."
        ),
    ),
]
app = terminal.command_group()


@app.command("list")
def list_command(
    options: CaptureOptions,
    limit: Annotated[int, Option(min=1, help="Maximum number of webhooks to show.")] = 50,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the webhooks that were captured, the newest first; without --since, those of a day."""
    conditions = options.conditions(LIST_PERIOD)
    found = Captures.of(find_deployment(service)).matching(conditions)
    with saying("reading the webhooks"):
        captures = [*islice(found, limit)]
    more = next(found, None) is not None
    if as_json:
        terminal.print_json(
            {"webhooks": list(map(capture_text.capture_json, captures)), "more": more}
        )
        return
    if captures:
        terminal.console.print(capture_text.captures_table(captures))
    number = ("the newest " if more else "") + terminal.counted(len(captures), "webhook")
    remedy = "; --limit shows more" if more else "; --since looks further back"
    terminal.console.print(f"{number} since {terminal.format_time(conditions.since)}{remedy}")


@app.command()
def show(
    name: _IdArgument,
    endpoint: EndpointOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    body_to: Annotated[
        Path | None, Option(metavar="FILE", help="Write the bytes of the body to this new file.")
    ] = None,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show one captured webhook: facts, headers and body, and the event that was published."""
    options = CaptureOptions(endpoint=endpoint, since=since, until=until)
    captures = Captures.of(find_deployment(service))
    [found] = captures.by_ids([name], options.conditions(SEARCH_PERIOD))
    capture = captures.get(found.pk)
    body = captures.body(capture)
    if body_to is not None:
        _write(body_to, body)
    if as_json:
        terminal.print_json(capture_text.whole_capture_json(capture, body))
        return
    for line in terminal.fact_lines(capture_text.capture_rows(capture, datetime.now(UTC))):
        terminal.console.print(line, soft_wrap=True)
    terminal.console.print()
    terminal.console.print(
        f"its body is in {body_to}" if body_to else capture_text.body_text(body), soft_wrap=True
    )
    if capture.event_type:
        source, event_id = capture_text.event_name(capture)
        named = shlex.join([event_id, "--source", source])
        terminal.console.print(f"\nnext: `once trace {named}`", soft_wrap=True)


def _write(file: Path, body: bytes) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_THE_OWNER)
        with os.fdopen(handle, "wb") as opened:
            opened.write(body)
    except OSError as error:
        raise BadParameter(
            f"{file} cannot be written ({error.strerror}): name a new file", param_hint="--body-to"
        ) from None


@app.command()
def replay(
    asked: ReplayRequest,
    how: operator_changes.ChangeOptions,
    service: terminal.ServiceOption = "once",
) -> None:
    """Send captured webhooks again, the oldest first.

    --to-queue sends the event that the ingress published for the webhook, with the same
    id: a consumer that has processed it recognises a duplicate. If the webhook was
    captured only, its event is made now, provided that its endpoint hands the type on.
    --to-url sends the captured bytes of the body and the captured headers, and a header
    that marks the replay. Redirects are not followed.
    """
    deployment = find_deployment(service)
    plan = asked.plan(deployment, Captures.of(deployment))
    if how.dry_run or not how.yes:
        with saying("reading the webhooks"):
            plan.run()
    number = plan.number(*DONE)
    question = f"send {terminal.counted(number, 'webhook')}?" if number or how.yes else None
    if how.agreed(question, *_lines(plan)):
        with plan.sending(deployment, how.why) as run:
            stopped = True
            try:
                with progress(as_json=how.as_json) as bar:
                    task = bar.add_task("webhooks", total=len(run.chosen))
                    run.run(lambda: bar.advance(task))
                stopped = False
            except KeyboardInterrupt:
                raise StoppedError(run.stopped_text) from None
            finally:
                _show(run, stopped=stopped, as_json=how.as_json)
        return
    if how.as_json:
        _show(plan, stopped=False, as_json=True)
    if not how.dry_run:
        plan.raise_if_left()


def _lines(run: ReplayRun) -> list[str]:
    return terminal.first_lines([*map(str, run.results)], MAX_LINES, ": --json lists all")


def _show(run: ReplayRun, *, stopped: bool, as_json: bool) -> None:
    sent = run.number(*DONE)
    if as_json:
        results = [one.as_json() for one in run.results]
        terminal.print_json(
            {"dry_run": run.dry_run, "stopped": stopped, "sent": sent, "webhooks": results}
        )
        return
    for line in _lines(run):
        terminal.console.print(line, soft_wrap=True)
    number = terminal.counted(len(run.results), "webhook")
    terminal.console.print(f"sent {sent} of {number}")


_ACCEPTED = 200
_MAX_DUPLICATES = 100

_ANSWERS = {
    _ACCEPTED: "it is captured",
    401: "its signature was refused: the secret in Secrets Manager differs from the one that the "
    f"function knows, which it keeps for up to {KEPT_SECONDS} s; or the clock of this machine is "
    "wrong",
    403: "the address refused the request before the function: deploy again, so that its URL may "
    "be called by everybody",
    404: "the function has no such endpoint: deploy again",
    413: "the body is too large for the endpoint",
    429: "the function takes no more requests at this moment (reserved concurrency): providers "
    "send such webhooks again",
    502: "the function ended with an error: its log says which",
    503: "nothing durable was written, and a provider would send it again: the function's log says "
    "why",
}
_SAMPLES = Path(__file__).with_name("samples.json")
"""Bodies by profile; id and type are added. They have a fixed time: sent again, with the same id,
each is a duplicate."""

_IDS = {"stripe": "evt_test_", "slack": "Ev", "standard": "msg_"}
_LENGTH_OF_ID = 24


@app.command()
def send(
    endpoint: Annotated[str, Argument(metavar="ENDPOINT", help="Name of the endpoint.")],
    webhook_type: Annotated[
        str | None, Option("--type", help="The provider's type; by default the endpoint's first.")
    ] = None,
    data: Annotated[
        str | None,
        Option(
            help="The body: JSON, @FILE with JSON, or - for standard input. Id and type are put "
            "into it. By default a sample of the provider."
        ),
    ] = None,
    webhook_id: Annotated[
        str | None, Option("--id", help="The provider's id; by default new.")
    ] = None,
    duplicate: Annotated[
        int, Option(min=0, max=_MAX_DUPLICATES, help="Send it again so many times, signed anew.")
    ] = 0,
    service: terminal.ServiceOption = "once",
    why: operator_changes.WhyOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Send a test webhook to the ingress, signed with the endpoint's secret.

    It is captured, and handed on if the endpoint hands its type on: consumers
    process it like any other. The secret is read from Secrets Manager, and never
    shown.
    """
    deployment = find_deployment(service)
    webhooks = webhooks_of(deployment)
    chosen = webhooks.endpoint(endpoint)
    kind = _type(chosen, webhook_type)
    prefix = _IDS.get(chosen.profile.name)
    name = webhook_id or (f"{prefix}{uuid4().hex[:_LENGTH_OF_ID]}" if prefix else str(uuid4()))
    if (end := chosen.profile.id_end) and end in name:
        raise OpsError(
            f"the id contains {end!r}, which ends it in what is signed: give --id without it"
        )
    body = _body(chosen, kind, name, data and terminal.data_text(data))
    destination = HttpDestination.of_function(f"{webhooks.url}{chosen.name}")
    told = {"endpoint": endpoint, "type": kind, "duplicate": duplicate}
    with operator_changes.logged_change(deployment, "webhooks send", told, why) as change:
        secret = _secret(webhooks, chosen)
        statuses = []
        for _ in range(duplicate + 1):
            headers = _headers(chosen, kind, name, body, secret)
            try:
                statuses.append(send_request(destination, "POST", headers, body))
            except NotSent as error:
                raise OpsError(f"nothing was sent: {error}") from None
            except NoResponse as error:
                raise OpsError(
                    f"{error}; perhaps it was captured: send it again with --id {name} and the "
                    "same --data, and if it was, this is a duplicate"
                ) from None
        change.counts = {"sent": len(statuses), "accepted": statuses.count(_ACCEPTED)}
    event_type = chosen.event_type(kind) if kind in chosen.types else None
    if as_json:
        facts = {"endpoint": chosen.name, "id": name, "type": kind}
        terminal.print_json({**facts, "event_type": event_type, "statuses": statuses})
    else:
        for status in statuses:
            terminal.console.print(f"{chosen.name}: {kind}, id {name}: {status}", soft_wrap=True)
        if _ACCEPTED in statuses:
            handed_on = f"handed on as {event_type}" if event_type else "captured only"
            terminal.console.print(f"{handed_on}, once for all deliveries with this id and body")
            terminal.console.print(f"next: `once webhooks show {name}`", soft_wrap=True)
    refused = [status for status in statuses if status != _ACCEPTED]
    if refused:
        raise OpsError(f"{refused[0]}: {_ANSWERS.get(refused[0], 'see the log of the function')}")


def _type(endpoint: Endpoint, given: str | None) -> str:
    if not endpoint.profile.type:
        raise OpsError(
            f"the profile {endpoint.profile.name!r} has no place for a type, so that nothing is "
            "handed on: set type= of the profile, and deploy"
        )
    if given:
        return given
    if not endpoint.types:
        raise BadParameter(f"{endpoint.name!r} hands no type on: name one", param_hint="--type")
    return endpoint.types[0]


def _body(endpoint: Endpoint, webhook_type: str, webhook_id: str, data: str | None) -> bytes:
    """Return the operator's JSON, by default a sample, with id and type in their places."""
    profile = endpoint.profile
    if data is not None:
        try:
            body = parse(data, max_bytes=endpoint.limit)
        except OnceError as error:
            raise OpsError(f"--data is not the body of a webhook: {error}") from None
        if not isinstance(body, dict):
            raise OpsError("--data is not the body of a webhook: it must be a JSON object")
    else:
        samples = json.loads(_SAMPLES.read_text())
        body = samples.get(profile.name, samples["standard"])
        # An id that is not in the body may not count: then the body tells two webhooks apart.
        if not profile.id.startswith("body:"):
            body["test_id"] = webhook_id
    for place, value in {profile.type[0]: webhook_type, profile.id: webhook_id}.items():
        if place.startswith("body:"):
            *parents, last = place.removeprefix("body:").split(".")
            folder = body
            for name in parents:
                if not isinstance(folder.get(name), dict):
                    folder[name] = {}
                folder = folder[name]
            folder[last] = value
    raw = json.dumps(body, separators=(",", ":")).encode()
    if len(raw) > endpoint.limit:
        raise OpsError(
            f"the body has {len(raw)} bytes, and the endpoint {endpoint.name!r} takes "
            f"{endpoint.limit}: give a smaller --data, or set its body_bytes= and deploy"
        )
    return raw


def _secret(webhooks: DeployedWebhooks, endpoint: Endpoint) -> str:
    """Return the first secret of an endpoint's current version."""
    arn = webhooks.secrets[endpoint.name]
    answer = client("secretsmanager").get_secret_value(SecretId=arn, VersionStage="AWSCURRENT")
    lines = map(str.strip, str(answer.get("SecretString", "")).splitlines())
    if secret := next(filter(None, lines), None):
        return secret
    raise OpsError(
        f"the secret of {endpoint.name!r} is empty: put the provider's signing secret into "
        f"{arn} with `aws secretsmanager put-secret-value`"
    )


def _headers(
    endpoint: Endpoint, webhook_type: str, webhook_id: str, body: bytes, secret: str
) -> dict[str, str]:
    """Return the headers of a delivery, signed now."""
    profile = endpoint.profile
    types = [p.removeprefix("header:") for p in profile.type if p.startswith("header:")]
    try:
        signed = sign(profile, secret, body, webhook_id=webhook_id, now=time.time())
    except ValueError as error:
        raise OpsError(
            f"the secret of {endpoint.name!r} cannot sign: {error}; put the provider's "
            "signing secret into Secrets Manager, one secret a line, the current one first"
        ) from None
    except ModuleNotFoundError as error:
        raise OpsError(f"this profile needs a package: `pip install {error.name}`") from None
    known = {"content-type": "application/json", "user-agent": "once-webhooks-send"}
    return known | dict.fromkeys(types, webhook_type) | signed


@app.command()
def listen(
    to: Annotated[str, Option("--to", metavar="URL", help="Where to: http://localhost:3000/path.")],
    endpoint: EndpointOption = None,
    webhook_type: TypeOption = None,
    since: SinceOption = None,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Forward webhooks to a port of this machine while they are captured, until Ctrl-C.

    Each is forwarded once, with the bytes of its body and the headers that were
    captured. While nothing takes connections there, the command waits. Without
    --since, webhooks from before the start are left out. Nothing changes in AWS.
    """
    destination = HttpDestination.of(to, "--to", is_loopback, _NOT_HERE)
    options = CaptureOptions(endpoint=endpoint, webhook_type=webhook_type, since=since)
    listener = Listener(
        captures=Captures.of(find_deployment(service)),
        conditions=options.conditions(OVERLAP),
        destination=destination,
        skip=since is None,
        as_json=as_json,
    )
    terminal.error_console.print(f"forwarding to {to}; Ctrl-C ends it", soft_wrap=True)
    try:
        listener.run()
    except KeyboardInterrupt:
        more = "" if listener.last is None else f"; the last was received {listener.last}"
        terminal.error_console.print(
            f"ended: {terminal.counted(listener.number, 'webhook')} forwarded{more}", soft_wrap=True
        )
