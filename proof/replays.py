"""Runs of any kind: of the shop, the FIFO consumers, the webhook ingress, or the item consumer."""

from proof.item_dedup.search import run_items
from proof.ordered.run import OrderedRun
from proof.shop.replay import Replay, RunResult
from proof.shop.run import Run
from proof.traffic import Traffic
from proof.webhooks.run import WebhookRun
from proof.world.plan import Draw, InjectionPoint, Plan, recorded, script


def repeat(replay: Replay) -> RunResult:
    """Repeat a run."""
    if replay.item_group_size:
        return run_items(script(replay.actions), replay.seed, replay.item_group_size)
    return run(script(replay.actions), replay.traffic, replay.seed)


def run(draw: Draw, traffic: Traffic, seed: int) -> RunResult:
    """Run the consumers of a traffic to rest. The result depends on the arguments alone.

    Args:
        draw: decides on faults.
        traffic: the messages.
        seed: of the schedule.
    """
    reached: list[InjectionPoint] = []
    plan = Plan(recorded(draw, reached))
    if traffic.entries is not None:
        one: Run = OrderedRun(plan, traffic.entries, seed)
    elif traffic.webhooks:
        one = WebhookRun(plan, traffic.webhooks, seed)
    else:
        one = Run(plan, traffic, seed)
    violation = one.violation()
    replay = Replay(seed, traffic, tuple(plan.actions))
    return RunResult(replay, violation, plan.fired, one.world.log, reached)
