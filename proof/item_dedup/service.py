"""The consumer with item dedup, deployed into a world."""

from aws_lambda_powertools import Logger

from once.cdk import ConsumerProps
from once.consumer import Runtime
from once.settings import Dedup, Settings
from proof.item_dedup.accounts import NAME, SETTINGS, TABLE, TYPES, consumer
from proof.shop.clients import clients
from proof.shop.service import DEDUP_WINDOW_SECONDS, Function, Handle, Place, url
from proof.world.metrics import NO_METRICS
from proof.world.plan import Plan
from proof.world.queues import Queue
from proof.world.world import World

_LINE = ConsumerProps(NAME, external=TYPES)
_LOGGER = Logger(service=f"world-{NAME}", level="CRITICAL")


class ItemService:
    """One queue, its function and one table.

    Args:
        plan: the faults.
        seed: of all other random choices.
        group_size: 1 to have each message commit alone, outside of a transaction.

    Attributes:
        places: the consumer, by its name.
        world: the world. Its dedup table is one that the consumer may not use.
    """

    def __init__(self, plan: Plan, seed: int, group_size: int) -> None:
        clients().reset()
        self._group_size = group_size
        dead = Queue(f"{NAME}-dead")
        queue = Queue(NAME, _LINE.visibility, _LINE.max_receive_count + 1, dead)
        isolation = Queue(f"{NAME}-isolation", _LINE.visibility, _LINE.max_receive_count + 1, dead)
        function = Function(NAME, _LINE.timeout_seconds, self._new_handler, _LINE.batch_size)
        self.place = Place(_LINE, queue, isolation, dead, function, consumer)
        self.places = {NAME: self.place}
        queues = {url(each): each for each in (queue, isolation, dead)}
        self.world = World({TABLE: SETTINGS.key[0]}, TABLE, queues, {}, plan, seed)
        self.world.tables.plain_writes = group_size == 1

    def _new_handler(self) -> Handle:
        tasks, skew = self.world.tasks, self.world.plan.skew(NAME)
        runtime = Runtime(
            settings=self._settings(),
            dynamodb=clients().dynamodb,
            sqs=clients().sqs,
            logger=_LOGGER,
            metrics=NO_METRICS,
            clock=lambda: tasks.now + skew,
            sleep=tasks.pause,
        )
        handle: Handle = consumer.bound_to(runtime)
        return handle

    def _settings(self) -> Settings:
        assert self.place.isolation is not None  # noqa: S101
        return Settings(
            consumer=NAME,
            event_types=TYPES,
            queue_url=url(self.place.queue),
            dead_letter_url=url(self.place.dead_letters),
            dedup_table="none",
            tables={TABLE: SETTINGS},
            dedup_window_seconds=DEDUP_WINDOW_SECONDS,
            group_size=self._group_size,
            isolation_queue_url=url(self.place.isolation),
            dedup=Dedup.ITEM,
        )
