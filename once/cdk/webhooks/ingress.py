"""The construct of a webhook ingress: function, address, role and alarms."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from once.cdk._lambda_function import make_function, make_log_group
from once.cdk._message_groups import MessageGroups
from once.cdk._rollout import make_alias
from once.cdk.checks.deployment_options import deployment_faults
from once.cdk.checks.webhooks import webhook_props_faults, webhook_wiring_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.errors import SynthError
from once.cdk.monitoring.alarms import add_ingress_alarms
from once.cdk.monitoring.dashboard import Row, ingress_row
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.webhooks._address import function_url, http_api
from once.cdk.webhooks._role import ingress_role
from once.cdk.webhooks.function_settings import ingress_settings
from once.cdk.webhooks.props import WebhookProps


class WebhookIngress(Construct):
    """A webhook ingress: its function, its address, and its alarms.

    The attributes are its parts. `url` is the address, with a slash at its end: the name of an
    endpoint follows. It invokes `alias`, which points to a published version of `function`.
    `settings` are those of the function.

    Args:
        scope: the stack.
        props: the ingress.
        dedup_table: the table of dedup records, such as a `DedupTable`.
        captures: the table of captures, such as a `CaptureTable`.
        secrets: the ARN of each endpoint's secret, by the endpoint's name. The value is one secret
            a line.
        relay: publishes its events; required if an endpoint has `types`.
        claims: the claim-check bucket; required if an endpoint takes bodies that are too large for
            an item or a message.
        config: the deployment; by default that of the CDK context.

    Raises:
        SynthError: the ingress cannot be built; lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        props: WebhookProps,
        *,
        dedup_table: dynamodb.ITable,
        captures: dynamodb.ITable,
        secrets: Mapping[str, str],
        relay: OutboxRelay | None = None,
        claims: s3.IBucket | None = None,
        config: DeploymentConfig | None = None,
    ) -> None:
        config = config or DeploymentConfig.from_context(scope.node)
        faults = [*deployment_faults(config), *webhook_props_faults(props, config)]
        published = None if relay is None else relay.publishes
        faults += webhook_wiring_faults(props, secrets, published, claims)
        if faults:
            raise SynthError("the webhook ingress cannot be built", faults)
        super().__init__(scope, props.name)
        self._config = config
        reserved = config.webhook_reservation(props.reserved_concurrency)
        self.props = replace(props, reserved_concurrency=reserved)
        claims = claims if props.needs_claims else None
        self._name = f"{config.service}-{props.name}"
        groups = MessageGroups() if relay is None else relay.groups.among(props.event_types)
        used = {each.name: secrets[each.name] for each in props.endpoints}
        self.settings = ingress_settings(
            self.props,
            config,
            dedup_table=dedup_table.table_name,
            captures=captures.table_name,
            secrets=used,
            claims=None if claims is None else claims.bucket_name,
            groups=groups,
        )
        self.function = self._make_function(dedup_table, captures, claims)
        # The relay dead-letters a type that it does not know yet.
        self.alias = make_alias(self, self.function, after=[relay.alias] if relay else [])
        self.url = (
            http_api(self, self._name, self.alias, config)
            if props.http_api
            else function_url(self.alias)
        )
        add_ingress_alarms(self, self._name, self.function, local=config.local)

    @property
    def endpoints_output(self) -> str:
        """Its endpoints as one text, for a stack's output: the operator's tools read it back."""
        return self.settings.to_env()["ONCE_ENDPOINTS"]

    def dashboard_row(self) -> Row:
        """Return its graphs."""
        return ingress_row(self.props.name, self._name, self.function)

    def _make_function(
        self,
        dedup_table: dynamodb.ITable,
        captures: dynamodb.ITable,
        claims: s3.IBucket | None,
    ) -> lambda_.Function:
        props, settings = self.props, self.settings
        log_group = make_log_group(self, self._name, self._config)
        role = ingress_role(
            self,
            identity=props.name,
            dedup_table=dedup_table,
            captures=captures,
            secret_arns=list(settings.secrets.values()),
            claims=claims,
            log_group=log_group,
            config=self._config,
        )
        return make_function(
            self,
            props.name,
            cast(Path, props.folder),
            config=self._config,
            role=role,
            log_group=log_group,
            timeout_seconds=props.timeout_seconds,
            memory_mb=props.memory_mb,
            aws_services=props.aws_services,
            reserved_concurrency=props.reserved_concurrency,
            environment=settings.to_env(),
        )
