"""Repeats a run, of the shop or of the consumer with item dedup."""

from proof.item_dedup.search import run_items
from proof.shop.replay import Replay, RunResult
from proof.shop.run import run_replay
from proof.world.plan import script


def repeat(replay: Replay) -> RunResult:
    """Repeat a run."""
    if replay.item_group_size:
        return run_items(script(replay.actions), replay.seed, replay.item_group_size)
    return run_replay(replay)
