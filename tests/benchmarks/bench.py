"""The bench's DynamoDB without sockets, and rows of a run that reaches every goal."""

from functools import cached_property
from io import BytesIO
from threading import Lock
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from benchmarks import contenders
from benchmarks.batches import Setting, rows_of
from benchmarks.dynamodb import KEYS, Counts
from benchmarks.effects import CALLS_MS, ONCE
from benchmarks.rows import EMBEDDED, Row, Sample, row_of
from benchmarks.server import BenchServer, Service
from benchmarks.webhooks import INGRESS, PUT, Kind
from benchmarks.webhooks import rows_of as rows_of_webhooks

SESSION = boto3.Session("bench", "bench", region_name="us-east-1")


class MemoryServer(BenchServer):
    """Answers like the server, without its delay."""

    def __init__(self) -> None:
        self.service = Service()
        self._one_at_a_time = Lock()

    def client(self, service: str, config: Config | None = None) -> Any:
        client = SESSION.client(service, config=config)
        client.meta.events.register_first(f"before-send.{service}", self._send)
        return client

    @cached_property
    def dynamodb(self) -> Any:
        return self.client("dynamodb")

    def transact(self, *entries: dict[str, Any]) -> list[str]:
        """Commit, and return the codes of the cancellation reasons, if any."""
        try:
            self.dynamodb.transact_write_items(TransactItems=list(entries))
        except self.dynamodb.exceptions.TransactionCanceledException as error:
            return [reason["Code"] for reason in error.response["CancellationReasons"]]
        return []

    def __getattr__(self, method: str) -> Any:
        return getattr(self.service, method)

    def _send(self, request: Any, **_: Any) -> Any:
        target = request.headers["X-Amz-Target"].decode()
        with self._one_at_a_time:
            answer = self.service.respond(target, request.body)
        head, body = answer[1].split(b"\r\n\r\n", 1)
        status = int(head.split()[1])
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(body))


class _Raw(BytesIO):
    """A response body in the form that botocore reads."""

    def stream(self, **_: Any) -> Any:
        yield self.read()


def put(table: str, key: str, value: str = "", *, new: bool = False) -> dict[str, Any]:
    """Return a put of a transaction; `new` adds the condition that the item does not exist."""
    item = {KEYS[table]: {"S": key}, "value": {"S": value}}
    terms = {
        "ConditionExpression": f"attribute_not_exists({KEYS[table]})",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    return {"Put": {"TableName": table, "Item": item, **(terms if new else {})}}


NOT_IN_EMBEDDED = (
    *("cpu_us", "requests", "write_units", "write_units_least", "read_units"),
    *("cpu_vs_raw", "requests_vs_raw", "write_units_vs_raw"),
)
IN_EMBEDDED = {
    "vs_nothing": 4.0,
    "vs_powertools": 1.0,
    "sender_cpu_us": 100.0,
    "aws_cpu_us": 2000.0,
    "function_cpu_us": 1000.0,
}
GROUPED_EMBEDDED = {"contender": contenders.GROUPED_THREADS, "vs_nothing": 1.1, "vs_raw": 0.39}
EFFECTS = {
    "wall_us": 6000,
    "requests_per_message": 0.2,
    "vs_one_call": 1.2,
    "vs_sequential": 0.12,
    "vs_raw_threads": 1.05,
}
SETTINGS = (
    *(Setting(records=n, delay_ms=ms) for n in (10, 100) for ms in (0, 5, "model")),
    *(Setting(records=n, delay_ms=5, duplicates=0.1) for n in (10, 100)),
    *(Setting(records=n, delay_ms=5, conflicts=0.05) for n in (10, 100)),
    Setting(records=10, delay_ms=5, duplicates=1.0, redelivered=True),
)


def taken(wall: float, units: float = 4, requests: float = 1) -> Sample:
    units_of = {"write_units": units, "write_units_least": min(units, 4), "read_units": 0}
    return {"wall_us": wall, "cpu_us": wall / 10 + 10, "requests": requests, **units_of}


def rows(grouped_wall: float = 40, grouped_units: float = 4) -> list[Row]:
    """Return the rows of a run that reaches every goal, apart from the given figures."""
    samples = {c.name: [taken(1000)] for c in contenders.CONTENDERS}
    grouped = [taken(grouped_wall, grouped_units, requests=0.1)]
    samples |= {
        contenders.GROUPED: grouped,
        contenders.GROUPED_THREADS: grouped,
        contenders.ITEM: [taken(1000, units=1)],
    }
    samples[contenders.POWERTOOLS] = [taken(3000, units=3, requests=3)]
    samples[contenders.ITEM_GROUPED] = [taken(40, units=2, requests=0.1)]
    found = [row for setting in SETTINGS for row in rows_of(setting, samples)]
    end_to_end = {"delay_ms": EMBEDDED, **dict.fromkeys(NOT_IN_EMBEDDED), **IN_EMBEDDED}
    embedded = [{**found[3], **end_to_end}, {**found[0], **end_to_end, **GROUPED_EMBEDDED}]
    effects = [row_of(ONCE, [{}], kind="effects", call_ms=ms, **EFFECTS) for ms in CALLS_MS]
    models = [row_of("pydantic", [{}], kind="models", cpu_us=120, cpu_vs_struct=1.08)]
    found += effects + models
    return [*found, *(row for delay in (0, 5, EMBEDDED) for row in webhooks(delay)), *embedded]


def webhooks(delay_ms: float | str, *, wall: float = 1.05, forged_cpu: float = 10) -> list[Row]:
    """Return the rows of webhooks with one delay; the ingress takes `wall` times the wall time."""
    cpus = {Kind.GENUINE: 1000.0, Kind.DUPLICATE: 1000.0, Kind.FORGED: forged_cpu}
    samples = {
        (name, kind): [{"wall_us": 5000 * factor, "cpu_us": cpu}] * 3
        for name, factor in ((PUT, 1.0), (INGRESS, wall))
        for kind, cpu in cpus.items()
    }
    return rows_of_webhooks(samples, delay_ms, dict.fromkeys(samples, Counts(1, 4, 4)))


IMPORTS: list[Row] = [
    {"contender": name, "cpu_ms": 1.0, "modules": 1, "vs_boto3": ratio}
    for name, ratio in (
        ("boto3 and a client", 1.0),
        ("orders", 1.3),
        ("payments", 1.4),
        ("webhooks", 1.2),
    )
]
