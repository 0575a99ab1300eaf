"""The checks, in the order in which they run: later ones use what earlier ones sent."""

from proof.real_aws.check import Check
from proof.real_aws.checks import deployments, metrics, permissions, queues, tables

CHECKS: tuple[Check, ...] = (
    *(
        tables.leading_keys,
        queues.fifo_dead_letters,
        permissions.stream_key,
        permissions.workflow_alias,
        queues.subscriptions,
        tables.item_attributes,
    ),
    *(queues.audit, tables.conflicts, tables.enclosing_operation),
    *(deployments.function_url, permissions.operators, queues.redrive_task),
    *(metrics.mapping_metrics, metrics.alarm, deployments.rollout),
)
