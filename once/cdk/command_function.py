"""The construct of a function with commands: function, HTTP API, role and alarms."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from aws_cdk import Annotations
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from once.cdk import permissions
from once.cdk._http_api import add_routes, make_api
from once.cdk._lambda_function import FunctionConstruct
from once.cdk.checks.aws_clients_in_code import UNREAD_CLIENTS, unread_clients
from once.cdk.checks.command_props import command_props_faults
from once.cdk.checks.constructs import command_wiring_faults, later_type_faults
from once.cdk.checks.deployment_config import deployment_faults
from once.cdk.checks.handlers_in_code import UNREAD, unread_handlers
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.monitoring import monitor_commands
from once.cdk.outbox_relay import OutboxRelay
from once.cdk.props import CommandProps, MessageGroups, named
from once.cdk.synth_error import SynthError
from once.settings import CommandSettings, TableSettings


class CommandFunction(FunctionConstruct):
    """The function of commands, and the HTTP API that sends them.

    With `external_functions` of the deployment, another tool makes its function, role and API: it
    has no `alias`, and `contract` has what that tool needs.

    The attributes are its parts. `url` is the address of its own API, with a slash at its end; None
    without one. The API invokes `alias`, which an API of your own, or other code, may invoke too.

    Args:
        props: the commands.
        dedup_table: the table of dedup records, such as a `DedupTable`.
        tables: the business tables it may write, by the names that its handlers use.
        relay: publishes its events; required with `props.publishes`.
        api: an existing HTTP API, to which its routes are added; by default the construct makes
            one.

    Raises:
        SynthError: it cannot be built; lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        props: CommandProps,
        *,
        dedup_table: dynamodb.ITable,
        tables: Mapping[str, dynamodb.ITable] | None = None,
        relay: OutboxRelay | None = None,
        api: apigateway.IHttpApi | None = None,
        config: DeploymentConfig | None = None,
    ) -> None:
        config, tables = config or DeploymentConfig.from_context(scope.node), tables or {}
        faults = [*deployment_faults(config), *command_props_faults(props, config)]
        faults += command_wiring_faults(props, tables, None if relay is None else relay.publishes)
        faults += later_type_faults(props, relay.publishes_later) if relay else []
        if faults:
            raise SynthError(f"{named(props)} cannot be built", faults)
        super().__init__(scope, props.name, config)
        for warning, text in (
            (UNREAD, unread_handlers(props)),
            (UNREAD_CLIENTS, unread_clients(props)),
        ):
            if text:
                Annotations.of(self).add_warning_v2(warning, text)
        self.props = config.adapt_commands(props)
        own = {table.name: tables[table.name] for table in props.tables}
        groups = MessageGroups() if relay is None else relay.groups.among(props.publishes)
        settings = CommandSettings(
            dedup_table=dedup_table.table_name,
            tables={
                table.name: TableSettings(name=own[table.name].table_name, key=table.keys)
                for table in props.tables
            },
            dedup_window_seconds=config.dedup_window_seconds,
            time_margin_ms=config.time_margin_ms,
            **{**props.settings, **groups.settings},
        )
        put, every = [permissions.PUT], [dedup_table, *own.values()]
        statements = [
            *permissions.record_statements(props.name, dedup_table, put, local=config.local),
            *permissions.table_statements([*own.values()]),
            permissions.allow("Log", permissions.LOG_ACTIONS, self.log_group.log_group_arn),
            *permissions.key_statements(
                self, [("dynamodb", table.encryption_key) for table in every]
            ),
        ]
        rights = permissions.function_rights(self, "Commands", statements, config)
        self.url: str | None = None
        if isinstance(rights, iam.ManagedPolicy):
            self._leave_to_other_tool(self.props, rights, settings)
        else:
            self._make_function(
                cast(Path, props.folder),
                rights,
                settings,
                about=f"Once: commands of {props.name}",
                timeout_seconds=props.timeout_seconds,
                memory_mb=props.memory_mb,
                aws_services=props.aws_services,
                reserved_concurrency=self.props.reserved_concurrency,
                snap_start=self.props.snap_start,
                # The relay dead-letters a type that it does not know yet.
                after=[relay.alias] if relay else [],
            )
            if api is None and props.routes:
                api, self.url = make_api(self, props.requests_a_second)
            if api is not None and props.auth is not None:
                add_routes(self, api, props.routes, props.auth)
        alarms = monitor_commands(self)
        if not self.contract:
            self._shift_gradually(self.props.rollout, alarms)
