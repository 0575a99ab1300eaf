"""The checks, in the order in which they run: later ones use what earlier ones sent."""

from proof.real_aws.check import Check
from proof.real_aws.checks.deployments import (
    ENDPOINT_REMOVAL,
    FUNCTION_URL,
    ROLLOUT,
    TABLE_RECOVERY,
)
from proof.real_aws.checks.metrics import ALARM, MAPPING_METRICS, TRACES
from proof.real_aws.checks.permissions import OPERATORS, STREAM_KEY, WORKFLOW_ALIAS
from proof.real_aws.checks.queues import (
    AUDIT,
    CONCURRENCY,
    FIFO_LETTERS,
    REDRIVE_TASK,
    SUBSCRIPTIONS,
)
from proof.real_aws.checks.tables import (
    CONFLICTS,
    ENCLOSING_OPERATION,
    EXPIRY,
    ITEM_ATTRIBUTES,
    LEADING_KEYS,
    TTL,
)

CHECKS: tuple[Check, ...] = (
    *(LEADING_KEYS, FIFO_LETTERS, STREAM_KEY, WORKFLOW_ALIAS, SUBSCRIPTIONS, ITEM_ATTRIBUTES),
    *(AUDIT, CONFLICTS, TTL, EXPIRY, ENCLOSING_OPERATION),
    *(CONCURRENCY, FUNCTION_URL, OPERATORS, REDRIVE_TASK),
    *(MAPPING_METRICS, TRACES, ALARM, ROLLOUT),
    *(ENDPOINT_REMOVAL, TABLE_RECOVERY),
)
