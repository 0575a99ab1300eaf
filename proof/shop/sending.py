"""Sends the traffic of a run: everything at first, and each order once more when it is late."""

from proof.shop.service import DEDUP, DEDUP_WINDOW_SECONDS, INGRESS, Service, unreadable
from proof.shop.traffic import NONSENSE, STOCK, Traffic
from proof.world.tasks import START


def send_all(service: Service, traffic: Traffic) -> None:
    """Put articles on the shelf, and send the traffic now or within a minute."""
    world = service.world
    for sku, number in STOCK.items():
        world.tables.put("stock", {"sku": {"S": sku}, "available": {"N": str(number)}})
    for order in traffic.orders:
        for body in order.bodies():
            world.tasks.at(
                world.tasks.now + world.random.choice([0, 0.01, 1, 40]),
                lambda body=body: world.topics.publish(INGRESS, "order.placed", body),  # type: ignore[misc]
            )
    for _ in range(traffic.nonsense):
        world.queues.send(service.places["orders"].queue, NONSENSE, {})
    for number in range(traffic.unreadable):
        world.tables.put(DEDUP, unreadable(number))


def send_late_copies(service: Service, traffic: Traffic) -> None:
    """Send each order once more, at the end of the time for which its key is remembered."""
    world = service.world
    world.tasks.now = max(world.tasks.now, START + DEDUP_WINDOW_SECONDS)
    for order in traffic.orders:
        world.topics.publish(INGRESS, "order.placed", order.body())
