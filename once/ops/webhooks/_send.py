"""The command `webhooks send`: sends a signed test webhook, as the endpoint's provider would."""

import time
from typing import Annotated

from typer import Argument, BadParameter, Option

from once.ops.aws.clients import client
from once.ops.aws.deployed_webhooks import DeployedWebhooks
from once.ops.errors import OpsError
from once.ops.operator_log import WhyOption, logged_change
from once.ops.terminal.console import JsonOption, ServiceOption, console, data_text, print_json
from once.ops.webhooks._destination import Destination
from once.ops.webhooks._http_post import NotSent, Unanswered, send_request
from once.ops.webhooks._options import find_webhooks
from once.ops.webhooks._test_webhook import TestWebhook, make_webhook
from once.webhooks.endpoint import Endpoint
from once.webhooks.signature import KEPT_SECONDS

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


def send(
    endpoint: Annotated[str, Argument(metavar="ENDPOINT", help="Name of the endpoint.")],
    webhook_type: Annotated[
        str | None,
        Option("--type", help="The provider's type; by default the endpoint's first."),
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
        int,
        Option(min=0, max=_MOST_DUPLICATES, help="Send it again so many times, signed anew."),
    ] = 0,
    service: ServiceOption = "once",
    why: WhyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a test webhook to the ingress, signed with the endpoint's secret.

    It is captured, and handed on if the endpoint hands its type on: consumers
    process it like any other. The secret is read from Secrets Manager, and never
    shown.
    """
    deployment, webhooks = find_webhooks(service)
    chosen = webhooks.endpoint(endpoint)
    kind = _type(chosen, webhook_type)
    webhook = make_webhook(chosen, kind, webhook_id, data and data_text(data))
    destination = Destination.of_function(f"{webhooks.url}{chosen.name}")
    told = {"endpoint": endpoint, "type": kind, "duplicate": duplicate}
    with logged_change(deployment, "webhooks send", told, why) as change:
        secret = _secret(webhooks, chosen)
        statuses = [_sent(destination, webhook, secret) for _ in range(duplicate + 1)]
        change.counts = {"sent": len(statuses), "accepted": statuses.count(_ACCEPTED)}
    _show(webhook, statuses, as_json=as_json)
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


def _secret(webhooks: DeployedWebhooks, endpoint: Endpoint) -> str:
    """Return the first secret of an endpoint's current version."""
    arn = webhooks.secrets[endpoint.name]
    answer = client("secretsmanager").get_secret_value(SecretId=arn, VersionStage="AWSCURRENT")
    lines = map(str.strip, str(answer.get("SecretString", "")).splitlines())
    secret = next(filter(None, lines), None)
    if secret is None:
        raise OpsError(
            f"the secret of {endpoint.name!r} is empty: put the provider's signing secret into "
            f"{arn} with `aws secretsmanager put-secret-value`"
        )
    return secret


def _sent(destination: Destination, webhook: TestWebhook, secret: str) -> int:
    headers = webhook.headers(secret, time.time())
    try:
        return send_request(destination, "POST", headers, webhook.body)
    except NotSent as error:
        raise OpsError(f"nothing was sent: {error}") from None
    except Unanswered as error:
        raise OpsError(
            f"{error}; perhaps it was captured: send it again with --id {webhook.id} and the same "
            "--data, and if it was, this is a duplicate"
        ) from None


def _show(webhook: TestWebhook, statuses: list[int], *, as_json: bool) -> None:
    endpoint = webhook.endpoint
    event_type = endpoint.event_type(webhook.type) if webhook.type in endpoint.types else None
    if as_json:
        facts = {"endpoint": endpoint.name, "id": webhook.id, "type": webhook.type}
        print_json({**facts, "event_type": event_type, "statuses": statuses})
        return
    for status in statuses:
        console.print(f"{endpoint.name}: {webhook.type}, id {webhook.id}: {status}", soft_wrap=True)
    if _ACCEPTED not in statuses:
        return
    handed_on = f"handed on as {event_type}" if event_type else "captured only"
    console.print(f"{handed_on}, once for all deliveries with this id and body")
    console.print(f"once webhooks show {webhook.id}", soft_wrap=True)
