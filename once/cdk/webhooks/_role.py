"""Role of a webhook ingress: it commits like a consumer, reads its secrets, stores large bodies."""

from collections.abc import Sequence

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from once.cdk._key_permissions import key_statements
from once.cdk._permissions import LOG_ACTIONS, make_role
from once.cdk._table_permissions import ONLY_IN_TRANSACTIONS, PUT, allow, record_statements
from once.cdk.claim_bucket import ClaimAccess
from once.cdk.deployment_options import DeploymentConfig
from once.settings import consumer_objects
from once.webhooks.settings import OBJECTS


def ingress_role(
    scope: Construct,
    *,
    identity: str,
    dedup_table: dynamodb.ITable,
    captures: dynamodb.ITable,
    secret_arns: Sequence[str],
    claims: s3.IBucket | None,
    log_group: logs.ILogGroup,
    config: DeploymentConfig,
) -> iam.Role:
    """Return the role of an ingress's function; `identity` is the first part of its dedup keys."""
    only = ONLY_IN_TRANSACTIONS
    statements = [
        *record_statements(identity, dedup_table.table_arn, local=config.local),
        allow("CaptureInTransactions", [PUT], captures.table_arn, conditions=only),
        allow("ReadSecrets", ["secretsmanager:GetSecretValue"], *secret_arns),
        allow("Log", LOG_ACTIONS, log_group.log_group_arn),
    ]
    access = None if claims is None else _access(claims, identity)
    if access is not None:
        statements += access.write_statements()
    stored = None if access is None else access.bucket.encryption_key
    uses = [
        *(("dynamodb", table.encryption_key) for table in (dedup_table, captures)),
        *(("secretsmanager", key.arn) for key in [config.keys.secrets] if key and secret_arns),
        ("s3", stored),
    ]
    statements += key_statements(scope, uses)
    role = make_role(scope, "Ingress", statements, config)
    if access is not None:
        access.acknowledge(role)
    return role


def _access(claims: s3.IBucket, identity: str) -> ClaimAccess:
    return ClaimAccess(claims, (), (f"{OBJECTS}*", f"{consumer_objects(identity)}*"))
