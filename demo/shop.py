"""The shop deployed into an embedded AWS, with the payment sandbox as its payment provider."""

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from botocore.credentials import Credentials

from demo.audit import Evidence
from demo.payment_sandbox import PaymentSandbox
from demo.quiescence import wait_until_quiescent
from demo.report import print_failure, step
from demo.traffic.caller import Caller, api_url
from emulator.cdk_cli import Report, bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws
from emulator.installed import ROOT
from once.cdk import ConsumerProps
from once.names import RELAY
from once.ops.aws.deployment import Deployment
from stacks.consumers import CONSUMERS

_SERVICE = "once"
_STRIPE_KEY = "sk_test_sandbox"
_TIMEOUT_SECONDS = 300.0
_VISIBILITY_SECONDS = 10
_USERS = ("browser", "partner")
_MAY_CALL = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}],
}


def deploy_service(
    aws: EmbeddedAws,
    payment_api: str,
    *,
    app: str | Path | None = None,
    payment_seconds: int | None = None,
    service: str = _SERVICE,
    report: Report | None = None,
) -> Deployment:
    """Bootstrap the account, deploy both stacks, and store the provider's key, if it is asked for.

    Args:
        aws: the AWS to deploy into.
        payment_api: the URL of the payment provider.
        app: the command that synthesizes, or the folder of an assembly that was synthesized; by
            default the command of cdk.json.
        payment_seconds: the time to pay an order; by default that of cdk.json.
        service: the name of the deployment.
        report: told of the progress of `cdk deploy`.

    Raises:
        ProcessFailed: a step failed; the message has the last lines of its output.
    """
    bootstrap(aws)
    file = aws.state_dir / "outputs.json"
    context = {"payment_api": payment_api, "service": service}
    if payment_seconds is not None:
        context["payment_seconds"] = str(payment_seconds)
    stacks = deploy(aws, app=app, context=context, outputs=file, report=report)
    values = {name: value for stack in stacks.values() for name, value in stack.items()}
    if secret := values.get("SecretStripeKey"):
        client = aws.client("secretsmanager")
        client.put_secret_value(SecretId=secret, SecretString=_STRIPE_KEY)
    return Deployment.of(service, values)


@dataclass(frozen=True)
class Shop:
    """A deployed shop.

    Attributes:
        aws: the AWS that it runs on.
        sandbox: its payment provider.
        deployment: its functions, queues and tables.
    """

    aws: EmbeddedAws
    sandbox: PaymentSandbox
    deployment: Deployment

    def once(self, *arguments: str, **options: Any) -> None:
        """Run a command of `once`, whose output goes to this program's output.

        Args:
            arguments: the command and its options, such as `dlq`, `list`.
            options: further arguments of `subprocess.run`.

        Raises:
            subprocess.CalledProcessError: the exit status is not 0.
        """
        environment = {**os.environ, **self.aws.environment()}
        command = [sys.executable, "-m", "once.ops", *arguments]
        subprocess.run(command, check=True, cwd=ROOT, env=environment, **options)

    @cached_property
    def callers(self) -> list[Caller]:
        """Two callers of its API, each a user of IAM, whose keys are apart."""
        iam, url = self.aws.client("iam"), api_url(self.deployment)
        trust = ssl.create_default_context(cafile=str(self.aws.certificate))
        found = []
        for user in _USERS:
            iam.create_user(UserName=user)
            policy = json.dumps(_MAY_CALL)
            iam.put_user_policy(UserName=user, PolicyName="Invoke", PolicyDocument=policy)
            made = iam.create_access_key(UserName=user)["AccessKey"]
            credentials = Credentials(made["AccessKeyId"], made["SecretAccessKey"])
            found.append(Caller(url, credentials, self.aws.region, trust))
        return found

    @property
    def checkout(self) -> str:
        """The name of the function with the commands."""
        return f"{self.deployment.service}-checkout"

    def queues(self, *consumers: str) -> list[str]:
        """Return the URLs of the queues of some consumers."""
        parts = map(self.deployment.consumer, consumers)
        return [url for part in parts for url in part.queue_urls]

    def functions(self, *consumers: str) -> list[str]:
        """Return the names of the functions of some consumers, and of the relay."""
        names = [self.deployment.consumer(name).function_name for name in consumers]
        return [*names, f"{self.deployment.service}-{RELAY}"]

    def shorten_visibility(self, *consumers: str) -> None:
        """Let the messages of a killed function come again after ten seconds, in the same way."""
        shorter = {"VisibilityTimeout": str(_VISIBILITY_SECONDS)}
        for url in self.queues(*consumers):
            self.aws.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=shorter)

    def evidence(self) -> Evidence:
        """Return the evidence for an audit, with the charges and e-mails until now."""
        consumers = self.deployment.consumers.values()
        return Evidence(
            dynamodb=self.aws.client("dynamodb"),
            sqs=self.aws.client("sqs"),
            logs=self.aws.client("logs"),
            tables={**self.deployment.tables, "dedup": self.deployment.dedup_table},
            dead_letters={
                **{consumer.name: consumer.dead_letter_url for consumer in consumers},
                **self.deployment.kept_events,
            },
            log_groups={c.name: f"/aws/lambda/{c.function_name}" for c in consumers},
            subscribers=subscribers(CONSUMERS),
            charges=self.sandbox.charges(),
            emails=emails(self.aws),
        )

    def wait_until_processed(
        self,
        evidence: Evidence | None = None,
        queues: Collection[str] = (),
        timeout: float = _TIMEOUT_SECONDS,
    ) -> None:
        """Wait until the service is quiescent.

        A timeout is printed and not raised: the audit then reports the unfinished orders.

        Args:
            evidence: holds the dedup records; by default that of the whole shop.
            queues: the queues to wait for; by default those of all consumers, and the sweep queue.
            timeout: how long to wait, in seconds.
        """
        with step("waiting until everything is processed"):
            swept = filter(None, [self.deployment.sweep_queue_url])
            every = [*self.queues(*self.deployment.consumers), *swept]
            try:
                wait_until_quiescent(evidence or self.evidence(), queues or every, timeout=timeout)
            except TimeoutError as error:
                print_failure(self.aws, error)


def subscribers(consumers: Iterable[ConsumerProps]) -> dict[str, list[str]]:
    """Return the identities of the consumers that subscribe to each event type."""
    found: dict[str, list[str]] = defaultdict(list)
    for consumer in consumers:
        for event_type in consumer.event_types:
            if not consumer.retiring and consumer.identity not in found[event_type]:
                found[event_type].append(consumer.identity)
    return found


def emails(aws: EmbeddedAws) -> list[Mapping[str, Any]]:
    """Return the e-mails that the functions have sent through SES."""
    trust = ssl.create_default_context(cafile=str(aws.certificate))
    url = f"{aws.endpoint}/_ministack/ses/messages?account={aws.account}"
    with urllib.request.urlopen(url, context=trust, timeout=30) as answer:  # noqa: S310
        return list(json.load(answer)["messages"].get(aws.account, []))
