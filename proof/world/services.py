"""Services besides data stores and queues: payments, e-mail, secrets, objects and workflows."""

import base64
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from demo.payment_sandbox import PaymentSandbox, Request, Response, key_in_use, rate_limited
from proof.world.calls import ServiceError

SECRET = "sk_test_world"  # noqa: S105
EXECUTION_SECONDS = 10.0
"""Duration of an execution of the state machine."""
_PROCESSED = "pm_processed"
"""Part of a payment method whose charge is answered before Stripe knows the outcome."""


FAILING = "pm_failing"
"""A payment method that the provider refuses until the operator mends it, and takes no other."""


class Provider:
    """The payment sandbox, with requests that are executed later.

    Attributes:
        is_mended: whether it takes the failing payment method too.
    """

    is_mended = False

    def __init__(self, clock: Callable[[], float]) -> None:
        self.api = PaymentSandbox(clock=clock)
        self._executing: set[str] = set()

    def answer(self, request: Request) -> Response:
        """Execute a request; it is in conflict with a late one of the same key."""
        if request.idempotency_key in self._executing:
            return key_in_use(request.idempotency_key).answer
        if FAILING in request.body and not self.is_mended:
            return rate_limited()
        answer = self.api.answer(request)
        assert answer is not None  # noqa: S101
        if _PROCESSED in request.body and answer.body.get("status") == "succeeded":
            return replace(answer, body=answer.body | {"status": "processing"})
        return answer

    def begin(self, request: Request) -> Callable[[], object]:
        """Accept a late request, and return the function that executes it."""
        key = request.idempotency_key
        is_refused = FAILING in request.body and not self.is_mended
        if key is None or key in self._executing or is_refused:
            return lambda: None
        self._executing.add(key)

        def finish() -> None:
            self._executing.discard(key)
            self.api.answer(request)

        return finish

    @property
    def keys(self) -> str:
        """The idempotency keys in use, and the saved response of each."""
        uses = self.api._uses  # noqa: SLF001
        return f"{sorted(uses.items(), key=repr)} {sorted(self._executing)}"

    def charged(self) -> Counter[str]:
        """Return the number of charges of each order."""
        made = [each for each in self.api.charges() if each["status"] == "succeeded"]
        return Counter(charge["metadata"]["order_id"] for charge in made)


class Mail:
    """The number of e-mails that were `sent`, by recipient and subject."""

    def __init__(self) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Send an e-mail."""
        [to] = request["Destination"]["ToAddresses"]
        self.sent[to, request["Content"]["Simple"]["Subject"]["Data"]] += 1
        return {"MessageId": "e-mail"}


_VALID = 2


class Secrets:
    """All secrets. One that was never put has the default value."""

    def __init__(self, clock: Callable[[], float], default: str) -> None:
        self._clock = clock
        self._default = default
        self._versions: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def put(self, secret: str, value: str) -> None:
        """Make a value the current one, and the current one the previous one."""
        self._versions[secret][value] = self._clock()

    def valid_since(self, secret: str, value: str) -> float | None:
        """Return when a value was put; None if it is neither current nor previous."""
        valid = [*self._versions[secret]][-_VALID:]
        return self._versions[secret][value] if value in valid else None

    def answer(self, request: Mapping[str, Any]) -> dict[str, str]:
        """Return a version of a secret.

        Raises:
            ServiceError: there is no such version.
        """
        if request["SecretId"] not in self._versions:
            return {"SecretString": self._default}
        versions = [*self._versions[request["SecretId"]]]
        age = 2 if request.get("VersionStage") == "AWSPREVIOUS" else 1
        if len(versions) < age:
            raise ServiceError("ResourceNotFoundException")
        return {"SecretString": versions[-age]}


class Objects:
    """The content of all objects, by key."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation; a body is base64, in the request and in the answer.

        Raises:
            ServiceError: the error response.
        """
        key = request["Key"]
        if operation == "PutObject":
            self.content[key] = base64.b64decode(request["Body"])
            return {}
        if key not in self.content:
            raise ServiceError("NoSuchKey", 404)
        content = self.content[key]
        return {"Body": base64.b64encode(content).decode(), "ContentLength": len(content)}


class Workflows:
    """State machines and durable functions: the input of each execution, by its ARN."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began: dict[str, float] = {}
        self.started: dict[str, str] = {}

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute an operation of Step Functions, or Lambda's Invoke with a name.

        Raises:
            ServiceError: the error response.
        """
        if operation == "Invoke":
            arn = f"{request['FunctionName']}/durable-execution/{request['DurableExecutionName']}/1"
            payload = base64.b64decode(request["Payload"]).decode()
            if self.started.setdefault(arn, payload) != payload:
                raise ServiceError("DurableExecutionAlreadyStartedException", 409)
            return {"StatusCode": 202, "DurableExecutionArn": arn}
        if operation == "GetFunctionConfiguration":  # by a redrive; no function is deployed here
            raise ServiceError("ResourceNotFoundException", 404)
        if operation == "DescribeExecution":
            return {"input": self.started[request["executionArn"]]}
        arn = f"{request['stateMachineArn']}:{request['name']}".replace("stateMachine", "execution")
        is_running = self._clock() - self._began.setdefault(arn, self._clock()) < EXECUTION_SECONDS
        if self.started.setdefault(arn, request["input"]) != request["input"] or not is_running:
            raise ServiceError("ExecutionAlreadyExists")
        return {"executionArn": arn}
