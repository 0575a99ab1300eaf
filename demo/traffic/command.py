"""The sender of sample orders, and its command `send`."""

import secrets
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from typer import Option

from demo.quiescence import wait_until_empty
from demo.traffic.plan import (
    EVENT_TYPE,
    SOURCE,
    BodyBatch,
    TrafficPlan,
    build_manifest,
    first_wave,
    late_wave,
    plan_traffic,
)
from demo.traffic.publisher import publish_batches, stock_articles
from emulator.local.steps import step
from once import Producer
from once.events.outgoing import OutgoingEvent
from once.ops.aws.clients import client
from once.ops.aws.deployment import Deployment
from once.ops.errors import OpsError
from once.ops.terminal import command_group, console

_SEED_BITS = 48
_SERVICE = "once"
_MOST = 100_000

app = command_group()


@app.command()
def send(
    count: Annotated[int, Option(min=1, max=_MOST, help="Number of orders.")] = 100,
    duplicates: Annotated[
        int, Option(min=0, max=_MOST, help="Further deliveries of these orders.")
    ] = 0,
    seed: Annotated[
        int | None,
        Option(min=0, help="The same seed sends the same events; by default all are new."),
    ] = None,
    timeout: Annotated[
        float, Option(min=1, help="Seconds in which the first messages must be processed.")
    ] = 300,
) -> None:
    """Send sample orders and duplicates: at once, in parallel, and after they were processed.

    Late duplicates wait until the consumers' queues are empty.
    """
    planned = plan_traffic(
        count=count,
        duplicates=duplicates,
        seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
    )
    send_orders(planned, Deployment.find(_SERVICE), client, timeout)


def send_orders(
    planned: TrafficPlan,
    deployment: Deployment,
    client_of: Callable[[str], Any],
    timeout: float,
) -> dict[str, Any]:
    """Stock the articles, and send the orders of a plan to the ingress topic.

    Args:
        planned: the plan.
        deployment: the service.
        client_of: returns the boto3 client of a service, such as `sns`.
        timeout: seconds in which the first messages must be processed.

    Returns:
        The manifest, for the audit.

    Raises:
        OpsError: a message was not accepted, or the first ones were not processed in time.
    """
    sqs, topic = client_of("sqs"), deployment.ingress_topic(EVENT_TYPE)
    producer = Producer(source=SOURCE, topic_arn=topic, sns=client_of("sns"))

    def send_wave(name: str, wave: Sequence[BodyBatch]) -> None:
        with step(f"sending {sum(map(len, wave))} {name} (seed {planned.seed})", console=console):
            publish_batches(producer, (_events(bodies) for bodies in wave))

    with step(f"putting {len(planned.stock)} articles on the shelf", console=console):
        stock_articles(client_of("dynamodb"), deployment.table("stock"), planned.stock)
    send_wave("messages", list(first_wave(planned)))
    if late := late_wave(planned):
        urls = [url for each in deployment.consumers.values() for url in each.queue_urls]
        with step("waiting until the consumers' queues are empty", console=console):
            try:
                for _ in range(2):  # a message takes a moment from a topic to a queue
                    wait_until_empty(sqs, urls, timeout=timeout)
            except TimeoutError as error:
                advice = "read the functions' logs, or give them more time with --timeout"
                raise OpsError(f"{error}: {advice}") from None
        send_wave("late messages", late)
    return build_manifest(planned)


def _events(bodies: BodyBatch) -> list[OutgoingEvent]:
    # Some bodies are malformed: no event could be made of them. Each copy is sent by itself.
    return [OutgoingEvent(str(n), SOURCE, EVENT_TYPE, body) for n, body in enumerate(bodies)]
