"""Environment variables of a consumer's function."""

from collections.abc import Mapping

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from once.cdk._message_groups import MessageGroups
from once.cdk._workflow_permissions import workflow_variables
from once.cdk.deployment_options import DeploymentConfig
from once.cdk.props import ConsumerProps
from once.settings import Settings, TableSettings


def consumer_settings(
    props: ConsumerProps,
    config: DeploymentConfig,
    *,
    queue: sqs.IQueue,
    isolation: sqs.IQueue | None,
    dead_letters: sqs.IQueue,
    dedup_table: dynamodb.ITable,
    tables: Mapping[str, dynamodb.ITable],
    claims: s3.IBucket | None,
    sources: Mapping[str, tuple[str, ...]],
    groups: MessageGroups,
) -> Settings:
    """Return the settings that the library reads when the function is loaded.

    `groups` are those of the types that the consumer publishes.
    """
    return Settings(
        sources=sources,
        queue_url=queue.queue_url,
        dead_letter_url=dead_letters.queue_url,
        dedup_table=dedup_table.table_name,
        tables={
            table.name: TableSettings(name=tables[table.name].table_name, key=table.keys)
            for table in props.tables
        },
        dedup_window_seconds=config.dedup_window_seconds,
        time_margin_ms=config.time_margin_ms,
        lease_margin_seconds=config.lease_margin_seconds,
        isolation_queue_url=None if isolation is None else isolation.queue_url,
        groups=groups.fields,
        ordered_types=tuple(sorted(groups.ordered)),
        claim_bucket=None if claims is None else claims.bucket_name,
        **{**props.settings, **config.backoff},
    )


def handler_variables(
    props: ConsumerProps, config: DeploymentConfig, secrets: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that the handler reads, and the library does not.

    `secrets` are the ARNs of the secrets by the names in `props`.
    """
    sender = {"EMAIL_SENDER": config.email_sender} if props.sends_email else {}
    return {
        **{f"SECRET_{name.upper()}": arn for name, arn in secrets.items()},
        **{name.upper(): config.parameters[name] for name in props.parameters},
        **workflow_variables(props.starts),
        **sender,
    }
