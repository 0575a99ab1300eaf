"""The ingress, the relay and a consumer, deployed into a world."""

from dataclasses import replace

from aws_lambda_powertools import Logger

from once.cdk import ConsumerProps
from once.cdk.props import WebhookProps
from once.consumer import Runtime
from once.names import SOURCE_PREFIX
from once.settings import Settings, TableSettings
from once.webhooks.capture import CaptureAttribute
from once.webhooks.endpoint import CAPTURES, MAX_REQUEST_BYTES, WebhookSettings
from once.webhooks.ingress import WebhookIngress
from once.webhooks.signature import SecretCache
from proof.shop.clients import clients
from proof.shop.service import DEDUP, DEDUP_WINDOW_SECONDS, Function, Handle, Service
from proof.webhooks import receiver
from proof.world.metrics import NO_METRICS
from proof.world.plan import Plan

PROPS = WebhookProps(endpoints=receiver.ENDPOINTS)
SECRETS = {each.name: f"secret-{each.name}" for each in PROPS.endpoints}
_BUCKET = "claims-of-the-world"
_LOGGER = Logger(service=f"world-{PROPS.name}", level="CRITICAL")
_STEADIER = 5
"""Factor by which the ingress has better clocks: five minutes off, it would refuse all webhooks."""


class WebhookService(Service):
    """A webhook ingress with one consumer.

    Args:
        plan: the faults.
        seed: of all other random choices.

    Attributes:
        ingress: its function.
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        super().__init__(
            plan, seed, lines=(receiver.LINE,), consumer_of=lambda _: receiver.consumer
        )
        self.world.tables.create(CAPTURES, CaptureAttribute.PK)
        self.ingress = Function(PROPS.name, PROPS.timeout_seconds, self._new_ingress, batch=1)

    def _new_ingress(self) -> Handle:
        tasks = self.world.tasks
        skew = self.world.plan.skew(PROPS.name) / _STEADIER

        def clock() -> float:
            return tasks.now + skew

        return WebhookIngress(
            settings=self._webhook_settings(),
            dynamodb=clients().dynamodb,
            secrets=SecretCache(clients().secretsmanager, SECRETS, clock),
            logger=_LOGGER,
            s3=clients().s3,
            metrics=NO_METRICS,
            clock=clock,
            sleep=tasks.pause,
        ).handle

    def _webhook_settings(self) -> WebhookSettings:
        return WebhookSettings(
            consumer=PROPS.name,
            dedup_table=DEDUP,
            tables={CAPTURES: TableSettings(CAPTURES, (CaptureAttribute.PK,))},
            dedup_window_seconds=DEDUP_WINDOW_SECONDS,
            publishes=PROPS.event_types,
            max_body_bytes=MAX_REQUEST_BYTES,
            claim_bucket=_BUCKET,
            endpoints=PROPS.endpoints,
            secrets=SECRETS,
            capture_seconds=PROPS.capture_days * 24 * 60 * 60,
        )

    def _publishes(self) -> dict[str, tuple[str, ...]]:
        return {**super()._publishes(), PROPS.name: PROPS.event_types}

    def _new_consumer(self, line: ConsumerProps) -> Handle:
        runtime = Runtime(
            settings=self._settings(line),
            dynamodb=clients().dynamodb,
            s3=clients().s3,
            **self._of(line),
        )
        handle: Handle = receiver.consumer.bound_to(runtime)
        return handle

    def _settings(self, line: ConsumerProps) -> Settings:
        return replace(
            super()._settings(line),
            sources=dict.fromkeys(PROPS.event_types, (SOURCE_PREFIX + PROPS.name,)),
            max_body_bytes=MAX_REQUEST_BYTES,
            claim_bucket=_BUCKET,
        )
