"""End to end: both functions behind their URLs in the embedded AWS, on one connection each.

The embedded AWS, its functions and the sender share the machine, and so does what follows an event
of the ingress: the relay and a consumer. They slow down both functions alike.
"""

import http.client
import ssl
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from benchmarks.checks import Wrong
from benchmarks.rows import EMBEDDED
from benchmarks.webhooks.deployed.verify_then_put import Handle
from benchmarks.webhooks.functions import INGRESS, PUT
from benchmarks.webhooks.measure import WARM, WebhookSample, answered, pairs_of
from benchmarks.webhooks.requests import ENDPOINT, SECRET, Kind, lambda_event
from emulator.connection import HOST, Connection
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import DeployedWebhooks

PLAIN_FUNCTION = PLAIN_TABLE = "verify-then-put"
"""Physical names of the plain function and of its table."""

PAIRS = 100
_TIMEOUT_SECONDS = 30.0


def embedded_webhook_samples(
    aws: EmbeddedAws, ingress: DeployedWebhooks, pairs: int
) -> list[WebhookSample]:
    """Return the samples of both deployed functions, of every kind, without CPU time.

    Args:
        aws: an AWS with the shop and the plain function.
        ingress: the ingress of the shop.
        pairs: the number of requests of each kind.

    Raises:
        Wrong: an answer has the wrong status, or a webhook is not captured exactly once.
    """
    aws.client("secretsmanager").put_secret_value(
        SecretId=ingress.secrets[ENDPOINT], SecretString=SECRET
    )
    plain = aws.client("lambda").get_function_url_config(FunctionName=PLAIN_FUNCTION)
    handles = {PUT: poster(aws, plain["FunctionUrl"]), INGRESS: poster(aws, ingress.url)}
    for number in range(WARM):
        for handle in handles.values():
            answered(handle, lambda_event(number, Kind.GENUINE), Kind.GENUINE)
    samples = []
    for kind in Kind:
        events = [lambda_event(WARM + n, kind) for n in range(pairs)]
        for name, timings in pairs_of(handles, events, kind).items():
            walls = [replace(each, cpu_us=None) for each in timings]
            samples.append(WebhookSample(name, kind, EMBEDDED, walls))
    _check(aws.client("dynamodb"), (PLAIN_TABLE, ingress.captures), WARM + pairs)
    return samples


def poster(aws: Connection, url: str) -> Handle:
    """Return a function that posts an event's request to a function URL, on one connection.

    The host name of the URL goes into the header, since the embedded AWS has one address.
    """
    trust = ssl.create_default_context(cafile=str(aws.certificate))
    connection = http.client.HTTPSConnection(
        HOST, aws.port, timeout=_TIMEOUT_SECONDS, context=trust
    )

    def post(event: dict[str, Any], _: Any) -> dict[str, Any]:
        headers = {**event["headers"], "host": urlsplit(url).netloc}
        connection.request("POST", event["rawPath"], event["body"].encode(), headers)
        answer = connection.getresponse()
        answer.read()
        return {"statusCode": answer.status}

    return post


def _check(dynamodb: Any, tables: Iterable[str], expected: int) -> None:
    for table in tables:
        pages = dynamodb.get_paginator("scan").paginate(TableName=table, Select="COUNT")
        found = sum(page["Count"] for page in pages)
        if found != expected:
            raise Wrong(f"{table}, embedded: {expected} webhooks were sent, {found} are stored")
