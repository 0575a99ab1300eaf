"""The stack of state: the data that must survive any deployment of code.

After a first creation that failed, CloudFormation deletes what it has just made
(`RetainExceptOnCreate`). Tables stay (`Retain`): DynamoDB refuses to delete a protected one, and
the rollback would fail too. Their names are generated: the next attempt does not meet them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ses as ses
from constructs import Construct

from once.cdk.app.registry import Registry
from once.cdk.deployment_options import DEDUP, CustomerKey, DeploymentConfig, imported_key
from once.cdk.nag import acknowledge_finding
from once.cdk.props import ConsumerProps, TableProps, output_key
from once.cdk.retained_data import (
    CaptureTable,
    ClaimBucket,
    DedupTable,
    OperatorLog,
    RelayFailures,
    RetainedTable,
)
from once.schema import StackOutput

T = TypeVar("T")

CAPTURES = "captures"
"""Construct id of the table of captures."""


class StateStack(Stack):
    """The dedup table, the operator log, and the registry's tables, secrets and sender of e-mail.

    `captures` is the table of captured webhooks, None without an ingress.

    `relay_failures` is the bucket for failed batches of the relay. `operator_log` is the
    log group of the changes that operators make. `claims` is the claim-check bucket, None if
    neither a consumer nor the ingress needs one.

    Args:
        scope: the app.
        name: the stack's name.
        registry: the consumers and the webhook ingress.
        config: the deployment.
        options: further arguments of `aws_cdk.Stack`.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        registry: Registry,
        *,
        config: DeploymentConfig,
        **options: Any,
    ) -> None:
        about = "Once: dedup records, business tables, secrets"
        super().__init__(scope, name, description=about, **options)
        self._config, keys = config, config.keys
        consumers, webhooks = registry.consumers, registry.webhooks
        warm = config.warm(config.dedup_warm_throughput)
        self.dedup_table = self._existing(DEDUP) or DedupTable(self, DEDUP, warm, key=keys.tables)
        CfnOutput(self, StackOutput.DEDUP_TABLE, value=self.dedup_table.table_name)
        self._tables = {
            table.name: self._table(table)
            for table in _union(consumer.tables for consumer in consumers)
        }
        for table_name, table in self._tables.items():
            CfnOutput(self, f"{StackOutput.TABLE}{output_key(table_name)}", value=table.table_name)
        self._secrets = {
            secret: self._make_secret(secret)
            for secret in _union(consumer.secrets for consumer in consumers)
        }
        for secret, arn in self._secrets.items():
            CfnOutput(self, f"Secret{output_key(secret)}", value=arn)
        self.captures = None if webhooks is None else self._make_captures()
        self._endpoint_secrets = {
            endpoint.name: self._make_secret(f"endpoint-{endpoint.name}")
            for endpoint in (() if webhooks is None else webhooks.endpoints)
        }
        for endpoint, arn in self._endpoint_secrets.items():
            key = output_key(endpoint.replace("-", "_"))  # `stripe-eu` → `StripeEu`
            CfnOutput(self, f"{StackOutput.ENDPOINT_SECRET}{key}", value=arn)
        self.operator_log = OperatorLog(self, "operator-log", key=keys.logs)
        self.relay_failures = RelayFailures(self, "relay-failures", key=keys.buckets)
        CfnOutput(self, "RelayFailures", value=self.relay_failures.bucket_name)
        self.claims = self._make_claims(registry, config)
        sends = any(consumer.sends_email for consumer in consumers)
        if sends and config.create_email_identity:
            self._make_sender(config.email_sender)

    @property
    def tables(self) -> Mapping[str, dynamodb.ITable]:
        """Every table by its name, the dedup table first."""
        return {DEDUP: self.dedup_table, **self._tables}

    def tables_of(self, consumer: ConsumerProps) -> Mapping[str, dynamodb.ITable]:
        """Return the tables that this consumer writes, by the name its handlers use."""
        return {table.name: self._tables[table.name] for table in consumer.tables}

    def secrets_of(self, consumer: ConsumerProps) -> Mapping[str, str]:
        """Return the ARNs of the secrets that this consumer reads, by the name its line uses."""
        return {name: self._secrets[name] for name in consumer.secrets}

    @property
    def endpoint_secrets(self) -> Mapping[str, str]:
        """The ARN of the secret of each endpoint of the ingress, by the endpoint's name."""
        return self._endpoint_secrets

    def _table(self, props: TableProps) -> dynamodb.ITable:
        existing = self._existing(props.name)
        if existing is not None:
            return existing
        made = replace(props, warm_throughput=self._config.warm(props.warm_throughput))
        return RetainedTable(self, props.name, made, key=self._config.keys.tables)

    def _existing(self, name: str) -> dynamodb.ITable | None:
        existing = self._config.existing_tables.get(name)
        if existing is None:
            return None
        key = existing.key_arn and CustomerKey(existing.key_arn)
        return dynamodb.Table.from_table_attributes(
            self,
            f"existing-{name}",
            table_arn=existing.arn,
            table_stream_arn=existing.stream_arn,
            encryption_key=imported_key(self, key or None),
        )

    def _make_captures(self) -> CaptureTable:
        table = CaptureTable(self, CAPTURES, key=self._config.keys.tables)
        CfnOutput(self, StackOutput.CAPTURES, value=table.table_name)
        return table

    def _make_secret(self, name: str) -> str:
        secret = secretsmanager.Secret(
            self,
            f"secret-{name}",
            encryption_key=imported_key(self, self._config.keys.secrets),
            description="Once: set its value with `aws secretsmanager put-secret-value`",
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )
        made = cast(secretsmanager.CfnSecret, secret.node.default_child)
        # Without a value, a webhook that comes before it is answered with 503 and sent again. CDK
        # asks for a random one, which no signature matches: a webhook would count as forged.
        made.generate_secret_string = None
        acknowledge_finding(
            secret,
            "AwsSolutions-SMG4",
            "Its value is a provider's key, which only the owner of that account can rotate.",
        )
        # `Id` is the ARN on the embedded AWS too, where a `Ref` is the name.
        return made.attr_id

    def _make_claims(self, registry: Registry, config: DeploymentConfig) -> ClaimBucket | None:
        webhooks = registry.webhooks
        ingress = webhooks if webhooks is not None and webhooks.needs_claims else None
        if ingress is None and not any(each.claim_check_mb for each in registry.consumers):
            return None
        bucket = ClaimBucket(self, "claims", config, ingress)
        CfnOutput(self, StackOutput.CLAIM_BUCKET, value=bucket.bucket_name)
        return bucket

    def _make_sender(self, address: str) -> None:
        # A person verifies the address once; a new identity would have to be verified again.
        identity = ses.EmailIdentity(self, "sender", identity=ses.Identity.email(address))
        identity.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)


def _union(parts: Iterable[Iterable[T]]) -> list[T]:
    return list(dict.fromkeys(each for part in parts for each in part))
