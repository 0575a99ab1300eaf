"""The construct of a webhook ingress: function, address, role and alarms."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct

from once.cdk import permissions
from once.cdk._http_api import ANY_REQUEST, add_routes, make_api
from once.cdk._lambda_function import FunctionConstruct
from once.cdk.checks.constructs import webhook_wiring_faults
from once.cdk.checks.deployment_config import deployment_faults
from once.cdk.checks.webhook_props import webhook_props_faults
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.monitoring import monitor_ingress
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.props import Auth, MessageGroups, WebhookProps
from once.cdk.synth_error import SynthError
from once.names import consumer_objects
from once.settings import TableSettings
from once.webhooks.captured_webhook import CaptureAttribute
from once.webhooks.endpoint import CAPTURES, OBJECTS, WebhookSettings

REQUESTS_A_SECOND = 500
"""Throttle of the HTTP API, which answers 429 above it: providers send such webhooks again."""


class WebhookFunction(FunctionConstruct):
    """A webhook ingress: its function, its address, and its alarms.

    The attributes are its parts. `url` is the address, with a slash at its end: the name of an
    endpoint follows. It invokes `alias`, which points to a published version of `function`.
    `settings` are those of the function.

    Args:
        props: the ingress.
        dedup_table: the table of dedup records, such as a `DedupTable`.
        captures: the table of captures, such as a `CaptureTable`.
        secrets: the ARN of each endpoint's secret, by the endpoint's name. The value is one secret
            a line.
        relay: publishes its events; required if an endpoint has `types`.
        claims: the claim-check bucket; required if an endpoint takes bodies that are too large for
            an item or a message.

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
        super().__init__(scope, props.name, config)
        reserved = config.webhook_reservation(props.reserved_concurrency)
        self.props = replace(props, reserved_concurrency=reserved)
        claims = claims if props.needs_claims else None
        groups = MessageGroups() if relay is None else relay.groups.among(props.publishes)
        self.settings = WebhookSettings(
            dedup_table=dedup_table.table_name,
            tables={CAPTURES: TableSettings(name=captures.table_name, key=(CaptureAttribute.PK,))},
            secrets={each.name: secrets[each.name] for each in props.endpoints},
            claim_bucket=None if claims is None else claims.bucket_name,
            dedup_window_seconds=config.dedup_window_seconds,
            time_margin_ms=props.time_margin_ms(config.time_margin_ms),
            **{**props.settings, **groups.settings},
        )
        access = None
        if claims is not None:
            stored = (f"{OBJECTS}*", f"{consumer_objects(props.name)}*")
            access = permissions.ClaimAccess(claims, reads=(), writes=stored)
        # It commits like a consumer, reads its secrets, and stores large bodies.
        secret_arns, tables = self.settings.secrets.values(), (dedup_table, captures)
        put, only = [permissions.PUT], permissions.ONLY_IN_TRANSACTIONS
        statements = [
            *permissions.record_statements(props.name, dedup_table, put, local=config.local),
            permissions.allow("CaptureInTransactions", put, captures.table_arn, conditions=only),
            permissions.allow("ReadSecrets", ["secretsmanager:GetSecretValue"], *secret_arns),
            permissions.allow("Log", permissions.LOG_ACTIONS, self.log_group.log_group_arn),
            *(access.write_statements() if access else []),
        ]
        uses = [
            *(("dynamodb", table.encryption_key) for table in tables),
            ("secretsmanager", config.keys.secrets),
            ("s3", None if claims is None else claims.encryption_key),
        ]
        statements += permissions.key_statements(self, uses)
        role = permissions.function_role(self, "Ingress", statements, config)
        if access is not None:
            access.acknowledge(role)
        self._make_function(
            cast(Path, props.folder),
            role,
            self.settings,
            about="Once: verifies and captures webhooks",
            timeout_seconds=props.timeout_seconds,
            memory_mb=props.memory_mb,
            aws_services=props.aws_services,
            reserved_concurrency=reserved,
            # The relay dead-letters a type that it does not know yet.
            after=[relay.alias] if relay else [],
        )
        if props.http_api:
            api, self.url = make_api(self, REQUESTS_A_SECOND)
            # Providers sign their requests, and only the function can check a signature.
            add_routes(self, api, [ANY_REQUEST], Auth.public())
        else:  # open to everybody
            none = lambda_.FunctionUrlAuthType.NONE
            self.url = self.alias.add_function_url(auth_type=none).url
        monitor_ingress(self)

    @property
    def endpoints_output(self) -> str:
        """Its endpoints as one text, for a stack's output: the operator's tools read it back."""
        return json.dumps([each.to_builtins() for each in self.props.endpoints])
