"""Settlement of a pending effect by an operator, with its entry in the operator log."""

from datetime import UTC, datetime

from once.events.dedup_key import key_hash
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.effects.decision import Decision
from once.ops.effects.pending_effect import PendingEffect, PendingEffects
from once.ops.operator_log import logged_change


def settle(
    deployment: Deployment,
    effects: PendingEffects,
    effect: PendingEffect,
    decision: Decision,
    why: str,
) -> None:
    """Write an operator's decision into the pending record, which must be as it was read.

    Args:
        deployment: the deployment.
        effects: its pending effects.
        effect: the effect.
        decision: what the operator found out.
        why: how; the record and the operator log keep it.

    Raises:
        OpsError: a function may be calling the effect, or the record has changed meanwhile.
        botocore.exceptions.BotoCoreError, ClientError: AWS fails.
    """
    effect.check_ended(datetime.now(UTC))
    who = client("sts").get_caller_identity()["Arn"]
    after = decision.after(effect.intent, who=who, now=datetime.now(UTC), why=why)
    told = {
        "key_hash": key_hash(effect.pk),
        "effect": effect.intent.effect,
        "as": decision.name,
    }
    with logged_change(deployment, "effects settle", told, why) as change:
        effects.change(effect, after)
        change.counts = {"settled": 1}
