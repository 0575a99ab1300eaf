"""Caller of the shop's HTTP API: signs its requests, and repeats them until it has an answer."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials

from demo.traffic.plan import Loss, OrderRequest
from once.ops.aws.clients import ATTEMPTS, THREADS, pause
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError

PATH = "/orders"
_REPEATED = "idempotent-replayed"
_RUNNING = "#in-progress"
"""End of the problem type of an answer 409 to a request whose first attempt still runs."""
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: status, type and text of its body, and whether it says that it is repeated."""

    status: int
    content_type: str
    body: str
    repeated: bool

    @property
    def is_last(self) -> bool:
        """Whether the caller has its answer, and sends the request no more."""
        if self.status == http.HTTPStatus.CONFLICT:
            return not str(json.loads(self.body).get("type", "")).endswith(_RUNNING)
        return self.status != http.HTTPStatus.TOO_MANY_REQUESTS and self.status < 500


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its attempts.

    Attributes:
        request: the request.
        attempts: the number of times that it was sent.
        answer: the last answer.
    """

    request: OrderRequest
    attempts: int
    answer: Answer


@dataclass(frozen=True)
class Caller:
    """A client of the shop's API.

    Attributes:
        url: the address of the API.
        credentials: those of the user or role of IAM that signs; None for unsigned requests.
        region: the region of the API.
        trust: the certificates that are trusted.
    """

    url: str
    credentials: Credentials | ReadOnlyCredentials | None
    region: str
    trust: ssl.SSLContext

    def place(self, request: OrderRequest) -> Exchange:
        """Send a request, lose the answers that are to be lost, and repeat it until it is answered.

        Raises:
            OpsError: it was sent again and again, and no answer was the last one.
        """
        for loss in request.losses:
            self.post(request, loss)
        for attempt in range(ATTEMPTS):
            if attempt:
                pause(attempt)
            answer = self.post(request)
            if answer is not None and answer.is_last:
                return Exchange(request, len(request.losses) + attempt + 1, answer)
        last = "none" if answer is None else f"the status {answer.status}"
        raise OpsError(
            f"{ATTEMPTS} attempts to place {request.order.order_id} had no answer that holds, the "
            f"last one {last}: read the log of the function of checkout"
        )

    def post(self, request: OrderRequest, loss: Loss | None = None) -> Answer | None:
        """Make one attempt, and return its answer; None if there is none, or if it is lost."""
        key = {"idempotency-key": f'"{request.order.key}"'}
        return self.send(request.body.encode(), key, loss)

    def send(
        self, body: bytes, headers: Mapping[str, str], loss: Loss | None = None
    ) -> Answer | None:
        """Send a body to the orders; return the answer, None if there is none, or if it is lost."""
        address = urlsplit(self.url)
        path = f"{address.path.rstrip('/')}{PATH}"
        headers = {"host": address.netloc, "content-type": "application/json", **headers}
        request = AWSRequest("POST", f"https://{address.netloc}{path}", headers, body)
        if self.credentials is not None:
            SigV4Auth(self.credentials, "execute-api", self.region).add_auth(request)
        connection = http.client.HTTPSConnection(
            str(address.hostname), address.port, timeout=_TIMEOUT_SECONDS, context=self.trust
        )
        try:
            connection.request("POST", path, body, dict(request.headers))
            if loss is Loss.UNSEEN:
                return None
            answer = connection.getresponse()
            if loss is Loss.UNREAD:
                return None
            return Answer(
                status=answer.status,
                content_type=answer.getheader("content-type", ""),
                body=answer.read().decode(),
                repeated=answer.getheader(_REPEATED) == "true",
            )
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def place_orders(callers: Sequence[Caller], requests: Sequence[OrderRequest]) -> list[Exchange]:
    """Send requests from several threads, started in the order given.

    Raises:
        OpsError: one was not answered.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda each: callers[each.caller].place(each), requests))


def api_url(deployment: Deployment) -> str:
    """Return the address of the shop's API."""
    return str(deployment.door("checkout").url)
