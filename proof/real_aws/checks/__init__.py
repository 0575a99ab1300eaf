"""The checks, in the order in which they run: later ones use what earlier ones sent.

First those whose answers documents do not give. They wait for no subscription.
"""

from proof.real_aws.check import Check
from proof.real_aws.checks import deployments, metrics, permissions, queues, tables

CHECKS: tuple[Check, ...] = (
    *(
        tables.leading_keys,
        permissions.item_records,
        permissions.stream_key,
        permissions.workflow_alias,
        metrics.fill,
        queues.fifo_dead_letters,
        deployments.rollback,
        metrics.fifo_age,
    ),
    *(queues.subscriptions, tables.item_attributes),
    *(queues.audit, tables.conflicts, tables.enclosing_operation),
    *(deployments.function_url, permissions.operators, queues.redrive_task),
    *(metrics.mapping_metrics, metrics.alarm, deployments.rollout),
)
