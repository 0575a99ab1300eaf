"""An approach deployed into the embedded AWS: queue, dead-letter queue, tables and function."""

import io
import json
import secrets
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from emulator.embedded_aws import EmbeddedAws
from emulator.installed import ROOT
from lab.load.payments import REPORTS, Invocation, Payments, payments
from lab.load.traffic import BATCH, WARM, Batch, batches, send
from once.ops.aws.clients import depth
from redelivery import Subject

TIMEOUT_SECONDS = 15
"""Timeout of the function, and visibility timeout of the queue. The messages of a killed process
are delivered again after it, so that it determines how long a run with kills takes."""

REST_SECONDS = 120.0
_LOOK_SECONDS = 0.1
"""The longest time between two looks. An invocation is reported just before its messages are
deleted, so that its report alone does not show that they are."""

_WARM_UP = 100
"""Messages before a measurement: more than one batch for each of the five processes."""

_ENTRY = Path(__file__).with_name("measured_handler.py")


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployed approach with warm processes, in an account that holds it only.

    `queue` and `dead_letters` are the URLs of its two queues.
    """

    subject: Subject
    aws: EmbeddedAws
    provider: Payments
    sqs: Any
    queue: str
    dead_letters: str

    def process(self, sent: Sequence[Batch]) -> list[Invocation]:
        """Send batches, wait until the queue is empty, and return the invocations.

        Raises:
            TimeoutError: messages are left, and no invocation ended for `REST_SECONDS`.
        """
        self.provider.invocations.clear()
        send(self.sqs, self.queue, sent, self.subject)
        deadline = time.monotonic() + REST_SECONDS
        while left := depth(self.sqs, self.queue).total:
            if self.provider.changed.wait(_LOOK_SECONDS):
                self.provider.changed.clear()
                deadline = time.monotonic() + REST_SECONDS
            elif time.monotonic() > deadline:
                raise TimeoutError(
                    f"{left} messages are left, and none was processed for {REST_SECONDS:g} s"
                )
        return list(self.provider.invocations)


@contextmanager
def deployed(aws: EmbeddedAws, subject: Subject) -> Iterator[Deployment]:
    """Deploy an approach and warm its processes up; they have ended after the context."""
    account = f"{secrets.randbelow(10**12):012}"
    own = replace(aws, account=account)
    sqs, function, name = own.client("sqs"), own.client("lambda"), f"load-{account}"
    for table in subject.tables:
        own.client("dynamodb").create_table(**table.request)
    suffix = ".fifo" if subject.fifo else ""
    kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if subject.fifo else {}
    arn = f"arn:aws:sqs:{own.region}:{account}:load{{}}{suffix}"
    redrive = {"deadLetterTargetArn": arn.format("-dlq"), "maxReceiveCount": subject.max_receives}
    attributes = {"VisibilityTimeout": str(TIMEOUT_SECONDS), "RedrivePolicy": json.dumps(redrive)}
    dlq = sqs.create_queue(QueueName=f"load-dlq{suffix}", Attributes=kind)["QueueUrl"]
    source = sqs.create_queue(QueueName=f"load{suffix}", Attributes={**kind, **attributes})
    queue = source["QueueUrl"]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as package:
        package.write(_ENTRY, _ENTRY.name)
    [answer] = subject.answers
    with payments(answer.body) as provider:
        function.create_function(
            FunctionName=name,
            Runtime="python3.11",
            Role=_create_role(own),
            Handler=f"{_ENTRY.stem}.lambda_handler",
            Code={"ZipFile": content.getvalue()},
            Timeout=TIMEOUT_SECONDS,
            Environment={"Variables": _variables(subject, provider.url, queue, dlq)},
        )
        mapping = function.create_event_source_mapping(
            EventSourceArn=arn.format(""),
            FunctionName=name,
            BatchSize=BATCH,
            FunctionResponseTypes=["ReportBatchItemFailures"] if subject.batch_failures else [],
        )
        try:
            place = Deployment(subject, own, provider, sqs, queue, dlq)
            place.process(batches(WARM, range(_WARM_UP)))
            yield place
        finally:
            processes = own.function_processes(name)
            function.delete_event_source_mapping(UUID=mapping["UUID"])
            function.delete_function(FunctionName=name)
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def _create_role(aws: EmbeddedAws) -> str:
    """Create a role that may do everything: the lab compares approaches, not permissions."""

    def policy(**statement: Any) -> str:
        allowed = {"Effect": "Allow", **statement}
        return json.dumps({"Version": "2012-10-17", "Statement": [allowed]})

    iam = aws.client("iam")
    trust = policy(Principal={"Service": "lambda.amazonaws.com"}, Action="sts:AssumeRole")
    role = iam.create_role(RoleName="load", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    everything = policy(Action="*", Resource="*")
    iam.put_role_policy(RoleName="load", PolicyName="everything", PolicyDocument=everything)
    return str(role)


def _variables(subject: Subject, payments: str, queue: str, dlq: str) -> dict[str, str]:
    """Return the function's variables. The provider of the run replaces that of the answers."""
    [answer] = subject.answers
    url = urlsplit(answer.url)
    addresses = {f"{url.scheme}://{url.netloc}": payments, "{source}": queue, "{dlq}": dlq}
    variables = dict(subject.environment)
    for old, new in addresses.items():
        variables = {name: text.replace(old, new) for name, text in variables.items()}
    packages = [path for path in sys.path if path.endswith("site-packages")]
    return {
        **variables,
        "LAB_HANDLER": subject.handler,
        "LAB_REPORTS": payments + REPORTS,
        # From where this process imports the library and its dependencies, too.
        "PYTHONPATH": ":".join([str(ROOT / subject.root), str(ROOT), *packages]),
    }
