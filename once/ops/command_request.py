"""Request for a command with its key, as a client of the HTTP API sends it: `once send --route`."""

import os
import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.httpsession import URLLib3Session
from typer import BadParameter, Option

from once.commands.answer import REPEATED
from once.commands.http_door import KEY, key_in
from once.errors import OnceError
from once.events.strict_json import parse
from once.ops.aws.clients import client
from once.ops.aws.deployment import MAX_EVENT_BYTES
from once.ops.errors import OpsError
from once.ops.progress import find_deployment
from once.ops.terminal import console, print_json

_ROUTE = re.compile(r"(POST|PUT|PATCH|DELETE) (/[!-~]*)")
_HEADER = re.compile(r"([!-9;-~]+): *([ -~]*)")
_FIRST_ERROR, _FIRST_SERVER_ERROR = 400, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The options of `once send` for a command."""

    route: Annotated[
        str | None,
        Option(
            metavar="'METHOD /PATH'",
            help="Send a command to this route, such as 'POST /orders', in place of an event.",
        ),
    ] = None
    key: Annotated[
        str | None,
        Option(help="The command's key; by default new. The same key gets the same answer."),
    ] = None
    url: Annotated[
        str | None,
        Option(help="Address of the API; by default that of the commands of --to, or of the only."),
    ] = None
    header: Annotated[
        list[str] | None,
        Option(metavar="'NAME: VALUE'", help="A header of the request; may be repeated."),
    ] = None
    sign: Annotated[
        bool,
        Option("--sign", help="Sign the request with your credentials, for an IAM authorizer."),
    ] = False


def send_command(
    options: CommandOptions, data: str, *, to: str | None, service: str, as_json: bool
) -> None:
    """Send a command by HTTP, and print its answer."""
    route = _ROUTE.fullmatch(options.route or "")
    if route is None:
        raise BadParameter("give a method and a path, as in 'POST /orders'", param_hint="--route")
    method, path = route.groups()
    key = str(uuid4()) if options.key is None else options.key
    quoted = '"{}"'.format(re.sub(r'(["\\])', r"\\\1", key))
    if key_in(quoted) != key:
        raise BadParameter(
            "it is no key: give printable ASCII, not blank, of at most 512 characters",
            param_hint="--key",
        )
    try:
        parse(data, max_bytes=MAX_EVENT_BYTES)
    except OnceError as error:
        raise BadParameter(f"no function could read this body: {error}") from None
    url = f"{_base(options.url, to, service).rstrip('/')}{path}"
    headers = {"content-type": "application/json", KEY: quoted, **_headers(options.header or [])}
    request = AWSRequest(method, url, headers, data.encode())
    if options.sign:
        _sign(request)
    try:
        verify: Any = os.environ.get("AWS_CA_BUNDLE") or True
        session = URLLib3Session(verify=verify)
        answer = session.send(request.prepare())
    except BotoCoreError as error:
        raise OpsError(
            f"{error}; perhaps it took effect: send it again with --key {shlex.quote(key)}, and if "
            "it did, the answer is that of this request"
        ) from None
    status, body = answer.status_code, answer.content.decode(errors="replace")
    repeated = REPEATED in answer.headers
    if as_json:
        found = {"route": options.route, "key": key, "status": status}
        print_json({**found, "repeated": repeated, "body": body})
    else:
        console.print(
            f"{method} {url} {'repeated' if repeated else 'answered'} {status}; key {key}"
        )
        console.print(body, soft_wrap=True)
        trace = shlex.join(["once", "trace", key, "--scope", "SCOPE"])
        console.print(f"next: `{trace}`, with the scope of its sender", soft_wrap=True)
    if status >= _FIRST_ERROR:
        again = status >= _FIRST_SERVER_ERROR or "retry-after" in answer.headers
        remedy = f": it may be sent again with the same --key {shlex.quote(key)}" if again else ""
        raise OpsError(f"{options.route} was answered {status}{remedy}")


def _headers(given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        if (header := _HEADER.fullmatch(each)) is None:
            raise BadParameter("write NAME: VALUE in printable ASCII", param_hint="--header")
        found[header[1]] = header[2]
    return found


def _base(url: str | None, to: str | None, service: str) -> str:
    """Return the address before the path of a route."""
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise BadParameter("it is no URL of HTTP", param_hint="--url")
        return url
    deployment = find_deployment(service)
    doors = [deployment.door(to)] if to else [*deployment.commands.values()]
    if len(doors) > 1:
        raise OpsError(f"choose one with --to: {', '.join(each.name for each in doors)}")
    if not doors:
        raise OpsError(f"{service!r} has no commands: give --url")
    [door] = doors
    if door.url is None:
        raise OpsError(f"{door.name!r} has no HTTP API of its own: give --url")
    return door.url


def _sign(request: AWSRequest) -> None:
    credentials = boto3.Session().get_credentials()
    if credentials is None:
        raise OpsError(
            "there are no credentials to sign with: set AWS_PROFILE, or leave out --sign"
        )
    of_function = ".lambda-url." in str(urlsplit(request.url).hostname)
    name = "lambda" if of_function else "execute-api"
    SigV4Auth(credentials, name, client("sts").meta.region_name).add_auth(request)
