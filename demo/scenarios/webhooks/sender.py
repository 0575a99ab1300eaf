"""Sender: posts webhooks to a function URL from a few threads, and measures each answer."""

import http.client
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from urllib.parse import urlsplit

from demo.scenarios.webhooks.deliveries import Delivery, HttpRequest
from emulator.connection import Connection

THREADS = 4
_TIMEOUT_SECONDS = 30.0


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
        return self.delivery.is_settled(self.status, self.text)


class Sender:
    """Sends deliveries in the name of their providers.

    Args:
        aws: the AWS that answers for the function URL.
        url: the function URL. Its host name goes into the header Host, since the embedded AWS has
            one address.
        secrets: the secret of each endpoint; a change counts from the next request.
    """

    def __init__(self, aws: Connection, url: str, secrets: Mapping[str, str]) -> None:
        self._port = aws.port
        self._address = urlsplit(aws.endpoint).hostname or ""
        self._host = urlsplit(url).netloc
        self._trust = ssl.create_default_context(cafile=str(aws.certificate))
        self._secrets = secrets
        self._idle: list[http.client.HTTPSConnection] = []

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
        connection = self._connection()
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

    def _connection(self) -> http.client.HTTPSConnection:
        """Return a connection that no other thread uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return http.client.HTTPSConnection(
                self._address, self._port, timeout=_TIMEOUT_SECONDS, context=self._trust
            )
