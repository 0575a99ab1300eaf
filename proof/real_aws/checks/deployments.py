"""Checks of the webhook address, and of a gradual rollout."""

import json
import os
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from demo.background import background
from emulator.child_processes import ProcessFailed
from once.names import LIVE_ALIAS
from once.webhooks.signature import sign
from proof.real_aws.app import HOOK
from proof.real_aws.check import FAILED, NOT_OBSERVED, Check, Seen, Target, verdict

_HTTP_SECONDS = 30
_NO_SECRET = 503
"""Answer while the endpoint's secret has no value: the provider sends again."""


@partial(
    Check,
    "function-url",
    "the webhook address answers without credentials: a signed webhook counts once, a forged one "
    "is refused with 401, and one that comes before a secret is stored is answered with 503",
    300,
    if_not="set http_api=True; if only the answer before the secret differs, store the secret "
    "before you give the address to the provider",
)
def function_url(target: Target) -> Iterator[Seen]:
    ingress = target.parts.webhooks
    assert ingress is not None  # noqa: S101, the app has one
    webhook = {"id": target.id("hook"), "type": "hook.sent", "counter": target.id("hook")}
    body, url = json.dumps(webhook).encode(), f"{ingress.url}{HOOK.name}"
    early = post(url, signed(body, "no secret is stored"), body)
    secret = f"whsec_{secrets.token_hex(16)}"
    target.client("secretsmanager").put_secret_value(
        SecretId=ingress.secrets[HOOK.name], SecretString=secret
    )
    while (forged := post(url, signed(body, "another secret"), body)) == _NO_SECRET:
        yield Seen("the secret is not read yet")
    answers = [post(url, signed(body, secret), body) for _ in range(2)]
    if answers != [200, 200] or forged != 401 or early != _NO_SECRET:
        yield Seen(
            f"answers to one webhook sent twice: {answers}; to a forged one: {forged}; before "
            f"a secret was stored: {early}",
            FAILED,
        )
        return
    while target.amount("hook") < 1:
        yield Seen("the webhook is not counted yet")
    yield from target.emptied()
    amount = target.amount("hook")
    text = f"sent twice: {answers}, counted {amount} times; forged: {forged}"
    yield verdict(amount == 1, text)


def signed(body: bytes, secret: str) -> dict[str, str]:
    """Return the headers of a webhook that Stripe signs at this moment."""
    return {
        "content-type": "application/json",
        **sign(HOOK.profile, secret, body, webhook_id="", now=time.time()),
    }


def post(url: str, headers: Mapping[str, str], body: bytes) -> int:
    """Send a POST request without credentials, and return the status of its answer.

    An emulator answers at its endpoint for every host; the header Host names the one that is meant.

    Raises:
        OSError: there is no answer.
    """
    parts, endpoint = urlsplit(url), os.environ.get("AWS_ENDPOINT_URL")
    found = {**headers, "host": parts.netloc}
    target = url if endpoint is None else f"{endpoint}{parts.path}"
    request = urllib.request.Request(target, body, found, method="POST")  # noqa: S310
    trust = ssl.create_default_context(cafile=os.environ.get("AWS_CA_BUNDLE"))
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_SECONDS, context=trust) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


PAUSE_SECONDS = 5.0
"""Time between two events during the deployment."""
EVENTS = 300
"""The most that are sent, if the deployment takes 25 minutes."""
_CANARY = "Canary10Percent5Minutes"


@partial(
    Check,
    "rollout",
    f"a deployment moves the live alias by CodeDeploy ({_CANARY}), and events in flight count once",
    1800,
    if_not="set gradual_rollout to false, and report the deployment's events",
)
def rollout(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("it was deployed with local=true, which leaves CodeDeploy out", NOT_OBSERVED)
        return
    before, names = _version(target), list[str]()

    def publish(over: Event) -> None:
        while not over.wait(PAUSE_SECONDS):
            name = f"rollout-{len(names)}"
            target.publish([target.asked(name, publishes=True)])
            names.append(name)

    with background("events during the deployment", publish):
        target.redeploy(log_level="DEBUG")
    while set(amounts := target.amounts(names, "followers").values()) != {1}:
        if max(amounts) > 1:
            break
        yield Seen(f"{sum(amounts)} of {len(names)} counted")
    after, deployments = _version(target), _deployments(target)
    moved = [(one["status"], _CANARY in one["deploymentConfigName"]) for one in deployments]
    counted = f"{sum(amounts)} times, {len(names)} events of that time counted"
    holds = after != before and ("Succeeded", True) in moved and set(amounts) == {1}
    yield verdict(holds, f"version {before} to {after}; deployments: {moved}; {counted}")


@partial(
    Check,
    "rollback",
    "a deployment that fails after it has changed a function is rolled back, with the values that "
    "the service stack reads by Fn::GetStackOutput, and events still count",
    1800,
    if_not="after a failed deployment, deploy the earlier commit again; report it",
)
def rollback(target: Target) -> Iterator[Seen]:
    if target.local:
        yield Seen("an embedded AWS's own rollback says nothing of AWS", NOT_OBSERVED)
        return
    with suppress(ProcessFailed):
        target.redeploy(fails="true", log_level="DEBUG", gradual_rollout="false")
    stack = f"{target.parts.service}-service"
    while (status := _status(target, stack)).endswith("_IN_PROGRESS"):
        yield Seen(f"{stack} is {status}")
    # Directly into the queue: subscriptions may not deliver yet.
    url = target.parts.consumer("counter").queue_url
    body = target.asked("rolled-back")
    target.client("sqs").send_message(QueueUrl=url, MessageBody=body)
    while status == _ROLLED_BACK and not target.amount("rolled-back"):
        yield Seen(f"{stack} is {status}; an event afterwards is not counted yet")
    amount = target.amount("rolled-back")
    text = f"{stack} is {status}; an event afterwards counted {amount} times"
    yield verdict(status == _ROLLED_BACK and amount == 1, text)


_ROLLED_BACK = "UPDATE_ROLLBACK_COMPLETE"


def _status(target: Target, stack: str) -> str:
    found = target.client("cloudformation").describe_stacks(StackName=stack)
    return str(found["Stacks"][0]["StackStatus"])


def _version(target: Target) -> str:
    function = target.parts.consumer("follower").function_name
    alias = target.client("lambda").get_alias(FunctionName=function, Name=LIVE_ALIAS)
    return str(alias["FunctionVersion"])


def _deployments(target: Target) -> list[dict[str, Any]]:
    codedeploy, own = target.client("codedeploy"), f"{target.parts.service}-"
    since = {"start": target.started}
    ids = codedeploy.list_deployments(createTimeRange=since)["deployments"]
    found = [codedeploy.get_deployment(deploymentId=each)["deploymentInfo"] for each in ids]
    return [each for each in found if each["applicationName"].startswith(own)]
