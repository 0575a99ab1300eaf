"""The webhook ingress beside a function that only verifies a webhook and puts the item.

Each request is answered by both functions, one right after the other. Other load on the machine
then affects both alike, and each pair begins with the other function.

The rows have the keys of the other rows. Further ones are `request` (the kind), `p99_us`, `vs_put`
and `cpu_vs_put` (medians of the ratios within each pair) and `cpu_vs_genuine`.
"""

import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from importlib.resources import files
from statistics import quantiles
from typing import Any

from aws_lambda_powertools import Logger

from benchmarks.batches import Wrong
from benchmarks.contenders import LOG, WINDOW_SECONDS, Connect, quiet
from benchmarks.deployed.verify_then_put import Handle, verify_then_put
from benchmarks.dynamodb import CAPTURES, DEDUP, MODEL, Counts, Delay
from benchmarks.rows import Row, Sample, ratio, row_of, side_by_side, timed
from benchmarks.server import BenchServer
from demo.signers import SIGNERS
from once.cdk.props import WebhookProps
from once.runtime.sdk import SDK
from once.settings import TIME_MARGIN_MS, TableSettings
from once.testing.events import FakeContext
from once.webhooks import endpoint as endpoints
from once.webhooks.captured_webhook import CaptureAttribute
from once.webhooks.endpoint import STRIPE, Endpoint, WebhookSettings
from once.webhooks.ingress import Ingress
from once.webhooks.signature import SecretCache

PUT, INGRESS = "verify, then put", "webhook ingress"
ENDPOINT, TYPE = "stripe", "charge.refunded"
SECRET = "whsec_bench"  # noqa: S105
BODY_BYTES = 2000
"""About the size of a refund's event."""

DELAYS: tuple[Delay, ...] = (0, 5, MODEL)
PAIRS, WARM = 200, 20
"""Requests of each kind that each function gets in one setting, and those before them."""

_FORGED_SECRET = "whsec_forged"  # noqa: S105
_CONTEXT = FakeContext(900_000)


class Kind(StrEnum):
    """Kind of a request, as the function regards it."""

    GENUINE = "genuine"
    DUPLICATE = "duplicate"
    FORGED = "forged"


_SAMPLES = files("once.ops.webhooks") / "samples.json"


def body(number: int) -> bytes:
    """Return the body of a refund's webhook, of about `BODY_BYTES`: a sample of `webhooks send`."""
    refund = json.loads(_SAMPLES.read_text())["stripe"]
    event = {"id": f"evt_{number:08}", **refund, "type": TYPE}
    event["data"]["object"] |= {"id": f"ch_{number:08}", "description": ""}
    event["data"]["object"]["description"] = "x" * (BODY_BYTES - len(json.dumps(event)))
    return json.dumps(event).encode()


def lambda_event(number: int, kind: Kind) -> dict[str, Any]:
    """Return the event of an invocation with a webhook that is signed now."""
    content = body(number)
    key = _FORGED_SECRET if kind is Kind.FORGED else SECRET
    headers = {
        "content-type": "application/json; charset=utf-8",
        "user-agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        "accept": "*/*; q=0.5, application/xml",
        "host": "bench.lambda-url.us-east-1.on.aws",
        "x-forwarded-for": "192.0.2.1",
        "x-forwarded-proto": "https",
        **SIGNERS[ENDPOINT].headers(key, content, time.time()),
    }
    return url_event(f"/{ENDPOINT}", headers, content.decode())


def url_event(path: str, headers: Mapping[str, str], text: str) -> dict[str, Any]:
    """Return the event of a POST to a function URL, in format 2.0."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {**headers},
        "requestContext": {"http": {"method": "POST", "path": path, "sourceIp": "192.0.2.1"}},
        "body": text,
        "isBase64Encoded": False,
    }


class _Secrets:
    """Secrets Manager with the one secret, which was never rotated."""

    def get_secret_value(self, *, SecretId: str, VersionStage: str) -> Any:  # noqa: N803, ARG002
        return {"SecretString": SECRET}


def settings_of(props: WebhookProps) -> WebhookSettings:
    """Return the settings of an ingress as it is deployed, with the bench's names of resources."""
    return WebhookSettings(
        dedup_table=DEDUP,
        tables={endpoints.CAPTURES: TableSettings(name=CAPTURES, key=(CaptureAttribute.PK,))},
        secrets={each.name: each.name for each in props.endpoints},
        dedup_window_seconds=WINDOW_SECONDS,
        time_margin_ms=props.time_margin_ms(TIME_MARGIN_MS),
        **props.settings,
    )


def ingress_of(endpoint: Endpoint, dynamodb: Any, secrets: Any) -> Handle:
    """Return an ingress of one endpoint; the name of the endpoint's secret is the endpoint's."""
    settings = settings_of(WebhookProps(endpoints=(endpoint,)))
    ingress = Ingress(
        settings=settings,
        dynamodb=dynamodb,
        secrets=SecretCache(secrets, settings.secrets, time.time),
        logger=Logger(service="webhooks", stream=LOG),
    )
    return quiet(ingress.handle)


FUNCTIONS: dict[str, Callable[[Connect], Handle]] = {
    PUT: lambda connect: verify_then_put(connect("dynamodb"), table=CAPTURES, secret=SECRET),
    INGRESS: lambda connect: ingress_of(
        Endpoint(ENDPOINT, STRIPE, types=(TYPE,)), connect("dynamodb"), _Secrets()
    ),
}
"""Makes each function, warm, with a function that makes clients. Ratios are to the plain one."""


def measure(server: BenchServer, delay_ms: Delay, pairs: int) -> list[Row]:
    """Return the rows of both functions with one delay of DynamoDB, for every kind."""
    server.reset()
    connect = partial(server.client, config=SDK)
    handles = {name: prepare(connect) for name, prepare in FUNCTIONS.items()}
    costs: dict[tuple[str, Kind], Counts] = {}
    for kind in Kind:
        for name, handle in handles.items():
            server.count()
            answered(handle, lambda_event(0, kind), kind)  # the first one opens the connection
            costs[name, kind] = server.seen().counts
    samples = samples_of(handles, pairs, lambda: server.faults(delay_ms, conflicts=0, seed=0))
    captures = server.seen().captures
    expected = len(handles) * (WARM + pairs)
    if len(captures) != expected or set(captures.values()) != {1}:
        puts = sum(captures.values())
        raise Wrong(f"{expected} captures were expected; {len(captures)} were put, {puts} times")
    return rows_of(samples, delay_ms, costs)


def samples_of(
    handles: Mapping[str, Handle], pairs: int, begin: Callable[[], object] = gc.collect
) -> dict[tuple[str, Kind], list[Sample]]:
    """Return the times of each function, for the same requests in the same order.

    Each first answers `WARM` genuine requests. `begin` is called then.
    """
    for number in range(WARM):
        for handle in handles.values():
            answered(handle, lambda_event(number, Kind.GENUINE), Kind.GENUINE)
    begin()
    found: dict[tuple[str, Kind], list[Sample]] = {}
    for kind in Kind:
        events = [lambda_event(WARM + n, kind) for n in range(pairs)]

        def take(name: str, number: int, kind: Kind = kind, events: Any = events) -> Sample:
            return timed(lambda: answered(handles[name], events[number], kind))[1]

        gc.collect()
        for name, own in side_by_side(handles, pairs, take).items():
            found[name, kind] = own
    return found


def answered(handle: Handle, event: dict[str, Any], kind: Kind) -> None:
    """Let a function answer a request of this kind, with the right status."""
    status, right = handle(event, _CONTEXT)["statusCode"], 401 if kind is Kind.FORGED else 200
    if status != right:
        raise Wrong(f"a {kind} webhook was answered with {status} instead of {right}")


def rows_of(
    samples: Mapping[tuple[str, Kind], Sequence[Sample]],
    delay_ms: Delay | str,
    costs: Mapping[tuple[str, Kind], Counts] | None = None,
) -> list[Row]:
    """Return a row for each function and kind; `costs` are what one request costs, if counted."""
    return [
        row_of(
            function,
            own,
            *own[0],
            **(asdict(costs[function, kind]) if costs else {}),
            records=1,
            delay_ms=delay_ms,
            duplicates=float(kind is Kind.DUPLICATE),
            request=str(kind),
            p99_us=round(quantiles([e["wall_us"] for e in own], n=100, method="inclusive")[-1], 1),
            vs_put=ratio(own, samples[PUT, kind], "wall_us"),
            cpu_vs_put=ratio(own, samples[PUT, kind], "cpu_us"),
            cpu_vs_genuine=ratio(own, samples[function, Kind.GENUINE], "cpu_us"),
        )
        for (function, kind), own in samples.items()
    ]


def webhooks_in(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Return the rows of webhooks that have these values."""
    return [row for row in rows if "request" in row and wanted.items() <= row.items()]
