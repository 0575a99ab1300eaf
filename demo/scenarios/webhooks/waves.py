"""Waves: sends the requests of each simulated day to a function URL, and rotates the secrets.

No run waits for days. Before each wave, the stored records are moved back in time by the hours that
have passed for the providers: dedup records and captures are then as old as they would be. Their
times of commit, receipt and expiry change, and the day under which the index lists a capture. The
clock of the functions stays right.
"""

import base64
import http.client
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Any
from urllib.parse import urlsplit

from demo.audit.evidence import Item
from demo.kills import kill_at_random
from demo.scenarios.webhooks.deliveries import (
    HOURS_BEFORE,
    Delivery,
    Genuine,
    Handshake,
    HttpRequest,
)
from emulator.connection import Connection
from emulator.embedded_aws import EmbeddedAws
from once.ops.aws.deployment import DeployedWebhooks

THREADS = 4
_TIMEOUT_SECONDS = 30.0
_ROTATED_WAVE = 1
_REQUESTS_A_KILL = 30
KILLS_PER_WAVE = 8
"""Requests are the clock of the kills, so that a fast machine has as many. A wave has over 300."""
_LAST_ROUNDS = 3
_ACTIONS = 100
_UNITS = {"committed_at": 1000, "received_at": 1000, "expires_at": 1}
"""The attributes that hold a time, with their parts of a second."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request and its answer.

    Attributes:
        delivery: the delivery that the request belongs to.
        body: the bytes that were sent.
        status: the status of the answer; 0 if there was none.
        text: the body of the answer.
        seconds: the time from the request to the answer.
    """

    delivery: Delivery
    body: bytes
    status: int
    text: str
    seconds: float

    @property
    def is_settled(self) -> bool:
        """Whether the sender sends it no more."""
        if isinstance(self.delivery, Handshake):
            return (self.status, self.text) == (200, self.delivery.challenge)
        if isinstance(self.delivery, Genuine):
            return 200 <= self.status < 300
        return 200 <= self.status < 500  # a killed function gives no answer of its own


class Sender:
    """Sends deliveries in the name of their providers.

    Args:
        aws: the AWS that answers for the function URL.
        url: the function URL. Its host name goes into the header Host, since the embedded AWS has
            one address.
        secrets: the secret of each endpoint; a change counts from the next request.

    Attributes:
        posted: about how many requests it has sent.
    """

    def __init__(self, aws: Connection, url: str, secrets: Mapping[str, str]) -> None:
        self._port = aws.port
        self._address = urlsplit(aws.endpoint).hostname or ""
        self._host = urlsplit(url).netloc
        self._trust = ssl.create_default_context(cafile=str(aws.certificate))
        self._secrets = secrets
        self._idle: list[http.client.HTTPSConnection] = []
        self.posted = 0

    def send(
        self, deliveries: Sequence[Delivery], midway: Callable[[], object] | None = None
    ) -> list[Answered]:
        """Send deliveries, several at a time.

        Args:
            deliveries: the deliveries.
            midway: called by one thread after half of them, while the others go on.

        Returns:
            The answers in the order of the deliveries.
        """

        def send(number: int, delivery: Delivery) -> Answered:
            if midway is not None and number == len(deliveries) // 2:
                midway()
            return self.send_one(delivery)

        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(send, count(), deliveries))

    def send_one(self, delivery: Delivery) -> Answered:
        """Send one delivery, signed now."""
        request = delivery.request(self._secrets, time.time())
        started = time.perf_counter()
        status, text = self.post(request)
        return Answered(delivery, request.body, status, text, time.perf_counter() - started)

    def post(self, request: HttpRequest) -> tuple[int, str]:
        """Send a request; return status and body of the answer, 0 and nothing if there is none."""
        self.posted += 1
        try:
            connection = self._idle.pop()  # no other thread uses it
        except IndexError:
            connection = http.client.HTTPSConnection(
                self._address, self._port, timeout=_TIMEOUT_SECONDS, context=self._trust
            )
        headers = {**request.headers, "host": self._host}
        try:
            connection.request("POST", request.path, request.body, headers)
            answer = connection.getresponse()
            found = answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0, ""
        self._idle.append(connection)
        return found

    def close(self) -> None:
        """Close its connections."""
        while self._idle:
            self._idle.pop().close()


@dataclass
class WaveRun:
    """Sends waves, in every wave but the last one while functions are killed.

    Attributes:
        aws: the AWS that the functions run on.
        ingress: the ingress.
        dedup_table: the physical name of the dedup table.
        functions: the names of the functions that are killed at random.
        random: draws the secrets.
        answers: the answers until now.
        killed: the number of function processes that were killed.
    """

    aws: EmbeddedAws
    ingress: DeployedWebhooks
    dedup_table: str
    functions: Sequence[str]
    random: Random
    answers: list[Answered] = field(default_factory=list)
    killed: int = 0

    def __post_init__(self) -> None:
        self._secrets: dict[str, str] = {}
        self._sender = Sender(self.aws, self.ingress.url, self._secrets)

    def send(self, waves: Sequence[Sequence[Delivery]]) -> None:
        """Send every wave. What a wave leaves over is sent with the next one, as providers do."""
        self._rotate()
        tables = (self.dedup_table, self.ingress.captures)
        left: list[Delivery] = []
        for number, wave in enumerate(waves):
            if hours := HOURS_BEFORE[number]:
                move_back(self.aws.client("dynamodb"), tables, hours)
            last = number == len(waves) - 1
            rotation = self._rotate if number == _ROTATED_WAVE else None
            most = 0 if last else KILLS_PER_WAVE
            with kill_at_random(
                self.aws, self.functions, every=_REQUESTS_A_KILL, clock=self._posted, most=most
            ) as killed:
                left = self._post([*left, *wave], rotation)
            self.killed += killed.total()
        for _ in range(_LAST_ROUNDS):
            left = self._post(left)
        self._sender.close()

    def _posted(self) -> int:
        return self._sender.posted

    def _post(
        self, wave: Sequence[Delivery], midway: Callable[[], object] | None = None
    ) -> list[Delivery]:
        """Send a wave; return the deliveries that the provider sends again."""
        answers = self._sender.send(wave, midway)
        self.answers += answers
        return [each.delivery for each in answers if not each.is_settled]

    def _rotate(self) -> None:
        """Store a new secret of each endpoint, with which the providers sign from then on."""
        client = self.aws.client("secretsmanager")
        secrets = {
            name: f"whsec_{base64.b64encode(self.random.randbytes(24)).decode()}"
            for name in self.ingress.secrets
        }
        for name, arn in self.ingress.secrets.items():
            client.put_secret_value(SecretId=arn, SecretString=secrets[name])
        self._secrets.update(secrets)


def move_back(dynamodb: Any, tables: Sequence[str], hours: int) -> None:
    """Make every item of some tables older by some hours."""
    writes = []
    for table in tables:
        pages = dynamodb.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        for item in (item for page in pages for item in page["Items"]):
            key = {"TableName": table, "Key": {"pk": item["pk"]}}
            writes.append({"Update": {**key, **update(item, hours)}})
    for start in range(0, len(writes), _ACTIONS):
        dynamodb.transact_write_items(TransactItems=writes[start : start + _ACTIONS])


def update(item: Item, hours: int) -> Mapping[str, Any]:
    """Return the parameters of the update that makes an item older."""
    older: dict[str, Any] = {
        name: {"N": str(int(item[name]["N"]) - hours * 3600 * parts)}
        for name, parts in _UNITS.items()
        if name in item
    }
    if "day" in item:  # <endpoint>#<date>#<shard>
        endpoint, _, shard = item["day"]["S"].split("#")
        moment = datetime.fromtimestamp(int(older["received_at"]["N"]) / 1000, UTC)
        older["day"] = {"S": f"{endpoint}#{moment:%Y-%m-%d}#{shard}"}
    return {
        "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in older),
        "ExpressionAttributeNames": {f"#{name}": name for name in older},
        "ExpressionAttributeValues": {f":{name}": value for name, value in older.items()},
    }
