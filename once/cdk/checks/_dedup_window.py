"""The dedup window against the time for which one message can come back."""

from collections.abc import Iterator

from once.cdk.deployment_config import DAY_SECONDS, DeploymentConfig
from once.schema import Limits


def dedup_window_faults(config: DeploymentConfig) -> Iterator[str]:
    """Yield a fault for each way in which a message can outlive its dedup record."""
    days = config.dedup_window_days
    life = message_life_days(config.redrives)
    if days < life:
        yield (
            f"dedup_window_days={days}: with redrives={config.redrives} a message can come back "
            f"for {life} days and would change state again; raise it to {life}, or lower redrives"
        )
    if days < config.provider_retry_days:
        yield (
            f"dedup_window_days={days}: a provider sends an event again for provider_retry_days="
            f"{config.provider_retry_days}, and its key is forgotten before; raise it to "
            f"{config.provider_retry_days}"
        )


def message_life_days(redrives: int) -> int:
    """Return the days for which a message can come back, if it is redriven so many times.

    SQS keeps a message for 14 days at most, which gives 14 days for each life. A message that the
    consumer moves or dead-letters is a new one to SQS: that gives four days in the queue and four
    in the isolation queue for each life, and 14 days as a dead letter between two lives. The longer
    of both sums counts. A FIFO queue has no isolation queue, and on a FIFO dead-letter queue the 14
    days begin anew: the second sum holds there too, with four days to spare in each life.
    """
    lives = (1 + redrives) * Limits.DEAD_LETTER_RETENTION_SECONDS
    waits = (1 + redrives) * Limits.QUEUE_STAY_SECONDS
    stays = waits + redrives * Limits.DEAD_LETTER_RETENTION_SECONDS
    return max(lives, stays) // DAY_SECONDS
