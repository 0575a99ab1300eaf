"""Environment variables of a webhook ingress."""

from collections.abc import Mapping

from once.cdk._message_groups import MessageGroups
from once.cdk.deployment_options import DAY_SECONDS, DeploymentConfig
from once.cdk.webhooks.props import WebhookProps
from once.settings import MAX_BODY_BYTES, TableSettings
from once.webhooks.capture import CaptureAttribute
from once.webhooks.settings import CAPTURES, WebhookSettings


def ingress_settings(
    props: WebhookProps,
    config: DeploymentConfig,
    *,
    dedup_table: str,
    captures: str,
    secrets: Mapping[str, str],
    claims: str | None,
    groups: MessageGroups,
) -> WebhookSettings:
    """Return the settings that the library reads when the function is loaded.

    Args:
        props: the ingress.
        config: the deployment.
        dedup_table: the name of the table of dedup records.
        captures: the name of the table of captures.
        secrets: the ARN of each endpoint's secret, by the endpoint's name.
        claims: the name of the claim-check bucket, if there is one.
        groups: the message groups of the types that the ingress publishes.
    """
    return WebhookSettings(
        consumer=props.name,
        dedup_table=dedup_table,
        tables={CAPTURES: TableSettings(name=captures, key=(CaptureAttribute.PK,))},
        dedup_window_seconds=config.dedup_window_seconds,
        publishes=props.event_types,
        max_body_bytes=max(MAX_BODY_BYTES, props.largest_body),
        claim_bucket=claims,
        time_margin_ms=max(config.time_margin_ms, _after_the_provider_ms(props)),
        groups=groups.fields,
        ordered_types=tuple(sorted(groups.ordered)),
        endpoints=props.endpoints,
        secrets=secrets,
        capture_seconds=props.capture_days * DAY_SECONDS,
    )


def _after_the_provider_ms(props: WebhookProps) -> int:
    """Return the last part of the timeout, in which the most hurried provider waits no longer.

    An attempt may be in progress when it gives up: the last second before is not used either.
    """
    waits = min(each.profile.answer_seconds for each in props.endpoints)
    return 1000 * max(props.timeout_seconds - waits + 1, 0)
