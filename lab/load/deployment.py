"""An approach deployed into the embedded AWS: queue, dead-letter queue, tables and function."""

import io
import json
import re
import secrets
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from emulator.embedded_aws import EmbeddedAws
from emulator.installed import ROOT
from lab.load.payments import REPORTS
from lab.load.traffic import BATCH
from redelivery import Subject

TIMEOUT_SECONDS = 15
"""Timeout of the function, and visibility timeout of the queue. The messages of a killed process
are delivered again after it, so that it determines how long a run with kills takes."""

_ENTRY = Path(__file__).with_name("measured_handler.py")
_ROLE = "load"
_RESOURCE = re.compile(r"\{(source|dlq|queue:[\w.-]+)\}")


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployed approach, in an account that holds it only; the URLs of its two queues."""

    aws: EmbeddedAws
    sqs: Any
    function: str
    queue: str
    dead_letters: str

    def kill_client(self, port: int) -> bool:
        """Kill the function's process that uses a local port; return whether there was one."""
        for process in self.aws.function_processes(self.function):
            if port in _local_ports(process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
                    return True
        return False


@contextmanager
def deployed(aws: EmbeddedAws, subject: Subject, payments: str) -> Iterator[Deployed]:
    """Deploy an approach into an account of its own, and end its processes with the context.

    The address of the payment provider replaces that of the subject's answers.
    """
    account = f"{secrets.randbelow(10**12):012}"
    own = replace(aws, account=account)
    sqs, function = own.client("sqs"), f"load-{account}"
    for table in subject.tables:
        own.client("dynamodb").create_table(**table.request)
    queues = _create_queues(sqs, subject)
    variables = _environment(subject, queues, payments)
    client = own.client("lambda")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as package:
        package.write(_ENTRY, _ENTRY.name)
    client.create_function(
        FunctionName=function,
        Runtime="python3.11",
        Role=_create_role(own),
        Handler=f"{_ENTRY.stem}.lambda_handler",
        Code={"ZipFile": content.getvalue()},
        Timeout=TIMEOUT_SECONDS,
        Environment={"Variables": variables},
    )
    mapping = client.create_event_source_mapping(
        EventSourceArn=_arn(sqs, queues["source"]),
        FunctionName=function,
        BatchSize=BATCH,
        FunctionResponseTypes=["ReportBatchItemFailures"] if subject.batch_failures else [],
    )
    try:
        yield Deployed(own, sqs, function, queues["source"], queues["dlq"])
    finally:
        processes = own.function_processes(function)
        client.delete_event_source_mapping(UUID=mapping["UUID"])
        client.delete_function(FunctionName=function)
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _create_queues(sqs: Any, subject: Subject) -> dict[str, str]:
    """Create the queues of a subject; return their URLs by the names in its environment."""
    suffix = ".fifo" if subject.fifo else ""
    kind = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if subject.fifo else {}
    urls = {
        f"queue:{name}": sqs.create_queue(QueueName=name)["QueueUrl"] for name in subject.queues
    }
    urls["dlq"] = sqs.create_queue(QueueName=f"load-dlq{suffix}", Attributes=kind)["QueueUrl"]
    redrive = {
        "deadLetterTargetArn": _arn(sqs, urls["dlq"]),
        "maxReceiveCount": subject.max_receives,
    }
    attributes = {
        **kind,
        "VisibilityTimeout": str(TIMEOUT_SECONDS),
        "RedrivePolicy": json.dumps(redrive),
    }
    source = sqs.create_queue(QueueName=f"load{suffix}", Attributes=attributes)
    return {**urls, "source": source["QueueUrl"]}


def _arn(sqs: Any, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])


def _create_role(aws: EmbeddedAws) -> str:
    """Create a role that may do everything: the lab compares approaches, not permissions."""
    iam = aws.client("iam")
    trust = _policy(Principal={"Service": "lambda.amazonaws.com"}, Action="sts:AssumeRole")
    role = iam.create_role(RoleName=_ROLE, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    everything = _policy(Action="*", Resource="*")
    iam.put_role_policy(RoleName=_ROLE, PolicyName="everything", PolicyDocument=everything)
    return str(role)


def _policy(**statement: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]})


def _environment(subject: Subject, queues: Mapping[str, str], payments: str) -> dict[str, str]:
    provider = [urlsplit(answer.url) for answer in subject.answers]

    def resolved(value: str) -> str:
        for url in provider:
            value = value.replace(f"{url.scheme}://{url.netloc}", payments)
        return _RESOURCE.sub(lambda found: queues[found[1]], value)

    packages = [path for path in sys.path if path.endswith("site-packages")]
    return {
        **{name: resolved(value) for name, value in subject.environment.items()},
        "LAB_HANDLER": subject.handler,
        "LAB_REPORTS": payments + REPORTS,
        # From where this process imports the library and its dependencies, too.
        "PYTHONPATH": ":".join([str(ROOT / subject.root), str(ROOT), *packages]),
    }


def _local_ports(process: psutil.Process) -> set[int]:
    try:
        return {connection.laddr.port for connection in process.net_connections("tcp4")}
    except psutil.Error:
        return set()
