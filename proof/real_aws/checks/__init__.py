"""The checks, in the order in which they run: later ones use what earlier ones sent."""

from proof.real_aws.checks.audit import AUDIT
from proof.real_aws.checks.check import Check
from proof.real_aws.checks.function_url import FUNCTION_URL
from proof.real_aws.checks.metrics import ALARM, MAPPING_METRICS, TRACES
from proof.real_aws.checks.operators import OPERATORS
from proof.real_aws.checks.queues import CONCURRENCY, REDRIVE_TASK
from proof.real_aws.checks.rollout import ROLLOUT
from proof.real_aws.checks.tables import CONFLICTS, ENCLOSING_OPERATION, EXPIRY, TTL

CHECKS: tuple[Check, ...] = (
    *(AUDIT, CONFLICTS, TTL, EXPIRY, ENCLOSING_OPERATION),
    *(CONCURRENCY, FUNCTION_URL, OPERATORS, REDRIVE_TASK),
    *(MAPPING_METRICS, TRACES, ALARM, ROLLOUT),
)
