"""The command `console` and its server: on 127.0.0.1, on a free port, for one operator.

The console acts with the operator's AWS credentials, and any page of the web can make a browser
send requests to 127.0.0.1. So each path begins with a secret token, which no page knows; the Host
header must be the console's own, since a name of an attacker may resolve to 127.0.0.1 (DNS
rebinding); and requests that another site caused are refused, whatever they carry.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus
from importlib.resources import as_file, files
from secrets import token_urlsafe
from typing import Annotated, Any

import uvicorn
from botocore.exceptions import BotoCoreError, ClientError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, ExceptionHandler, Message, Receive, Scope, Send
from typer import BadParameter, Option

from once.ops import terminal
from once.ops.console import (
    dead_letter_changes,
    dead_letter_pages,
    effect_pages,
    jobs,
    message_page,
    operator_log_page,
    outbox_page,
    overview_page,
    webhook_pages,
)
from once.ops.console.rendering import Request, documentation_page, page
from once.ops.console.state import ConsoleState, NotReadYetError
from once.ops.errors import NotFoundError, OpsError, error_with_remedy, unexpected_error_text
from once.ops.progress import find_deployment

app = terminal.command_group()

HOST = "127.0.0.1"
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # The address has the token, and is told to no other site. With `no-referrer`, browsers send
    # the console's own forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_OWN_SITE: tuple[list[str], ...] = ([], ["same-origin"], ["none"])
"""Sec-Fetch-Site, as a list of its values: `none` is an address that the operator opened."""


_DEAD_LETTER = "/dead-letters/{consumer}/{message_id}"
_PAGES: tuple[tuple[str, str, Callable[[Request], Any]], ...] = (
    ("/", "overview", overview_page.overview_page),
    ("/dead-letters", "dead-letters", dead_letter_pages.groups_page),
    ("/dead-letters/letters", "dead-letter-list", dead_letter_pages.list_page),
    (_DEAD_LETTER, "dead-letter", dead_letter_pages.dead_letter_page),
    (f"{_DEAD_LETTER}/edit", "edit-dead-letter", dead_letter_changes.edit_page),
    ("/retries", "retries", overview_page.retries_page),
    ("/message", "message", message_page.message_page),
    ("/effects", "effects", effect_pages.effects_page),
    ("/effects/one", "effect", effect_pages.effect_page),
    ("/outbox", "outbox", outbox_page.outbox_page),
    ("/webhooks", "webhooks", webhook_pages.webhooks_page),
    ("/webhooks/one", "webhook", webhook_pages.webhook_page),
    ("/jobs/{job_id}", "job", jobs.job_page),
    ("/operator-log", "operator-log", operator_log_page.operator_log_page),
    ("/documentation/{subject}", "documentation", documentation_page),
)
"""Path and name of each page, and the function that returns it."""
_FORMS: tuple[tuple[str, str, Callable[[Request], Any]], ...] = (
    ("/dead-letters/redrive", "plan-redrive", jobs.planning(dead_letter_changes.plan_redrive)),
    ("/dead-letters/purge", "plan-purge", jobs.planning(dead_letter_changes.plan_purge)),
    ("/dead-letters/import", "plan-import", jobs.planning(dead_letter_changes.plan_import)),
    (f"{_DEAD_LETTER}/edit", "plan-edit", jobs.planning(dead_letter_changes.plan_edit)),
    ("/acknowledge", "plan-ack", jobs.planning(dead_letter_changes.plan_acknowledgement)),
    ("/pause", "plan-pause", jobs.planning(overview_page.plan_pause)),
    ("/effects/settle", "settle-effect", jobs.planning(effect_pages.plan_settlement)),
    ("/outbox/republish", "republish", jobs.planning(outbox_page.plan_republish)),
    ("/webhooks/replay", "replay", jobs.planning(webhook_pages.plan_replay)),
    ("/jobs/{job_id}/start", "start-job", jobs.start_job),
    ("/jobs/{job_id}/stop", "stop-job", jobs.stop_job),
)
"""The same of each form."""


@dataclass(frozen=True, slots=True)
class Address:
    """The console's own address; the token is the first segment of each path."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """The URL of the first page. It has the token: anyone who knows it can use the console."""
        return f"http://{HOST}:{self.port}/{self.token}/"


class Access:
    """ASGI middleware that refuses every request but the operator's own to `address`.

    With `read_only`, it refuses every request that could change something.
    """

    def __init__(self, app: ASGIApp, address: Address, *, read_only: bool) -> None:
        self._app = app
        self._root = f"/{address.token}"
        self._hosts = [f"{HOST}:{address.port}", f"localhost:{address.port}"]
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; start-up and end of the application pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        if refused := self._refusal(scope):
            status, text = refused
            response = PlainTextResponse(text, status_code=status)
            await response(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers, is_safe = Headers(scope=scope), scope["method"] in _SAFE_METHODS
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            return HTTPStatus.MISDIRECTED_REQUEST, "unknown host: open the URL that was printed\n"
        root = "/".join(scope["path"].split("/")[:2])
        if not compare_digest(root.encode(), self._root.encode()):
            return HTTPStatus.FORBIDDEN, "open the URL that `once console` has printed\n"
        # Browsers send each header once, and an Origin with each POST.
        own = [[f"http://{host}"] for host in self._hosts] + ([[]] if is_safe else [])
        is_own = headers.getlist("origin") in own
        if not is_own or headers.getlist("sec-fetch-site") not in _OWN_SITE:
            return HTTPStatus.FORBIDDEN, "refused: another site caused this request\n"
        if self._read_only and not is_safe:
            return HTTPStatus.FORBIDDEN, "refused: this console is read-only\n"
        return None


def console_app(state: ConsoleState, address: Address) -> ASGIApp:
    """Return the application of a console; every answer passes `Access`, errors included."""
    with as_file(files("once.ops.console") / "static") as static:
        routes = [
            *(Route(path, form, name=name, methods=["POST"]) for path, name, form in _FORMS),
            *(Route(path, show, name=name) for path, name, show in _PAGES),
            Mount("/static", StaticFiles(directory=static), name="static"),
        ]
    failed = _error_page(HTTPStatus.BAD_GATEWAY, error_with_remedy)
    routed = Starlette(
        routes=[Mount(f"/{address.token}", routes=routes)],
        exception_handlers={
            **dict.fromkeys((BotoCoreError, ClientError), failed),
            # The state of the service does not allow it: another command may hold a dead letter.
            OpsError: _error_page(HTTPStatus.CONFLICT, str),
            NotFoundError: _error_page(HTTPStatus.NOT_FOUND, str),
            # A form whose fields do not fit is refused in the words of the command's option.
            BadParameter: _error_page(400, BadParameter.format_message),
            # It is raised again, so that the terminal shows where it was.
            Exception: _error_page(500, unexpected_error_text),
            NotReadYetError: lambda request, _: page(request, "reading.html"),
        },
    )
    routed.state.console = state
    return Access(routed, address, read_only=state.read_only)


def _error_page(status: int, text: Callable[[Any], str]) -> ExceptionHandler:
    return lambda request, error: page(request, "error.html", status=status, error=text(error))


class ConsoleServer(uvicorn.Server):
    """The console's server at its `address`, before it runs."""

    def __init__(self, state: ConsoleState, listener: socket.socket) -> None:
        self._listener = listener
        self._state = state
        self.address = Address(listener.getsockname()[1], token_urlsafe(24))
        super().__init__(
            uvicorn.Config(
                console_app(state, self.address),
                log_level="warning",  # the access log would have the token
                timeout_graceful_shutdown=1,
            )
        )

    def serve_until_stopped(self) -> None:
        """Serve until Ctrl-C or SIGTERM, or until `should_exit` is set."""
        self._state.read_queues(patience=0)  # the first page finds them read
        try:
            self.run(sockets=[self._listener])
        finally:
            for job in self._state.started:
                if job.phase is jobs.JobPhase.RUNNING:
                    job.stop()
                    told = job.error or job.phase.value
                    terminal.error_console.print(f"{job.title}: {told}", soft_wrap=True)
            self._state.messages.close()


@contextmanager
def console_server(state: ConsoleState, port: int = 0) -> Iterator[ConsoleServer]:
    """Bind a port of 127.0.0.1, or a free one for 0, and release it at the end."""
    with closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen()  # what opens the URL before the server runs waits
        except OSError as error:
            raise OpsError(f"port {port} cannot be used ({error}): give another --port") from None
        yield ConsoleServer(state, listener)


@app.command("console")
def console_command(
    service: terminal.ServiceOption = "once",
    port: Annotated[
        int, Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one.")
    ] = 0,
    read_only: Annotated[
        bool, Option("--read-only", help="Show only: offer and accept no change.")
    ] = False,
    as_json: terminal.JsonOption = False,
) -> None:
    """Serve pages that show the deployment and repair failures.

    They are served until Ctrl-C, on 127.0.0.1 only, at a URL with a secret token, and
    use your AWS credentials. Each change shows a dry run first, and leaves entries in
    the operator log.
    """
    with console_server(ConsoleState(find_deployment(service), read_only), port) as server:
        url = server.address.url
        if as_json:
            terminal.print_json({"service": service, "url": url, "read_only": read_only})
        else:
            terminal.console.print(f"the console of {service}: {url}", soft_wrap=True)
            terminal.console.print("Ctrl-C ends it; keep the URL to yourself", soft_wrap=True)
        server.serve_until_stopped()
