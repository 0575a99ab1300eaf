"""The shop deployed into an embedded AWS, with the payment sandbox as its payment provider."""

import json
import ssl
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from demo.audit import Evidence
from emulator.cdk_cli import Outputs, Report, bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws
from once.cdk import ConsumerProps
from once.ops.aws.deployment import Deployment
from once.schema import RELAY, UNROUTED
from stacks.consumers import CONSUMERS

_SERVICE = "once"
_STRIPE_KEY = "sk_test_sandbox"


def deploy_service(
    aws: EmbeddedAws,
    payment_api: str,
    *,
    app: str | None = None,
    outputs: Path | None = None,
    report: Report | None = None,
) -> Deployment:
    """Bootstrap the account, deploy both stacks, and store the provider's key as a secret.

    Args:
        aws: the AWS to deploy into.
        payment_api: the URL of the payment provider.
        app: the command that synthesizes; by default that of cdk.json.
        outputs: file for the stacks' outputs.
        report: told of the progress of `cdk deploy`.

    Raises:
        ProcessFailed: a step failed; the message has the last lines of its output.
    """
    bootstrap(aws)
    file = outputs or aws.state_dir / "outputs.json"
    context = {"payment_api": payment_api}
    stacks = deploy(aws, app=app, context=context, outputs=file, report=report)
    values = _flat(stacks)
    aws.client("secretsmanager").put_secret_value(
        SecretId=values["SecretStripeKey"], SecretString=_STRIPE_KEY
    )
    return Deployment.of(_SERVICE, values)


def collect_evidence(aws: EmbeddedAws, deployment: Deployment, payment_api: str) -> Evidence:
    """Return the evidence for an audit, with the charges and e-mails until now."""
    consumers = deployment.consumers.values()
    letters = {c.name: c.dead_letter_url for c in consumers}
    return Evidence(
        dynamodb=aws.client("dynamodb"),
        sqs=aws.client("sqs"),
        logs=aws.client("logs"),
        tables={**deployment.tables, "dedup": deployment.dedup_table},
        dead_letters={
            **letters,
            RELAY: deployment.relay_dead_letter_url,
            UNROUTED: deployment.unrouted_queue_url,
        },
        log_groups={c.name: f"/aws/lambda/{c.function_name}" for c in consumers},
        subscribers=subscribers(CONSUMERS),
        charges=_json(f"{payment_api}/sandbox/charges"),
        emails=emails(aws),
    )


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
    found = _json(f"{aws.endpoint}/_ministack/ses/messages?account={aws.account}", trust)
    return list(found["messages"].get(aws.account, []))


def _flat(stacks: Outputs) -> dict[str, str]:
    return {name: value for stack in stacks.values() for name, value in stack.items()}


def _json(url: str, trust: ssl.SSLContext | None = None) -> Any:
    with urllib.request.urlopen(url, context=trust, timeout=30) as answer:  # noqa: S310
        return json.load(answer)
