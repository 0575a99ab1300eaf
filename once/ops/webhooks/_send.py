"""The command `webhooks send`: sends a signed test webhook, as the endpoint's provider would."""

import json
import time
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from typer import Argument, BadParameter, Option

from once.errors import OnceError
from once.events.strict_json import parse
from once.ops import operator_log, terminal
from once.ops.aws.clients import client
from once.ops.aws.deployment import DeployedWebhooks, Deployment
from once.ops.errors import OpsError
from once.ops.webhooks._http import Destination, NotSent, Unanswered, send_request
from once.ops.webhooks.captures import webhooks_of
from once.webhooks.endpoint import Endpoint
from once.webhooks.signature import KEPT_SECONDS, sign

_ACCEPTED = 200
_MOST_DUPLICATES = 100

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
        int, Option(min=0, max=_MOST_DUPLICATES, help="Send it again so many times, signed anew.")
    ] = 0,
    service: terminal.ServiceOption = "once",
    why: operator_log.WhyOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Send a test webhook to the ingress, signed with the endpoint's secret.

    It is captured, and handed on if the endpoint hands its type on: consumers
    process it like any other. The secret is read from Secrets Manager, and never
    shown.
    """
    deployment = Deployment.find(service)
    webhooks = webhooks_of(deployment)
    chosen = webhooks.endpoint(endpoint)
    kind = _type(chosen, webhook_type)
    prefix = _IDS.get(chosen.profile.name)
    name = webhook_id or (f"{prefix}{uuid4().hex[:_LENGTH_OF_ID]}" if prefix else str(uuid4()))
    body = _body(chosen, kind, name, data and terminal.data_text(data))
    destination = Destination.of_function(f"{webhooks.url}{chosen.name}")
    told = {"endpoint": endpoint, "type": kind, "duplicate": duplicate}
    with operator_log.logged_change(deployment, "webhooks send", told, why) as change:
        secret = _secret(webhooks, chosen)
        statuses = []
        for _ in range(duplicate + 1):
            headers = _headers(chosen, kind, name, body, secret)
            try:
                statuses.append(send_request(destination, "POST", headers, body))
            except NotSent as error:
                raise OpsError(f"nothing was sent: {error}") from None
            except Unanswered as error:
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
