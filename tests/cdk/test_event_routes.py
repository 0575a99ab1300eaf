"""Published types against all subscriptions: types without a subscriber, and loops."""

from dataclasses import replace
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match, Template

from once.cdk import ConsumerProps, Topics, UnroutedEvents
from once.cdk.checks.consumer_set import route_warnings
from stacks.consumers import CONSUMERS
from stacks.registry import REGISTRY
from tests.stacks.cloud import SHOP


def line(name: str, takes: str, publishes: str = "") -> ConsumerProps:
    return ConsumerProps(name, events=tuple(takes.split()), publishes=tuple(publishes.split()))


LINES = [replace(each, folder=REGISTRY.folder_of(each)) for each in CONSUMERS if each.name in SHOP]
CHAIN = [line("a", "x", "y"), line("b", "y", "z"), line("c", "z")]
LOOPS = {
    "two consumers": ([line("a", "y", "x"), line("b", "x", "y")], ["x,y"]),
    "three consumers": ([line("a", "z", "x"), line("b", "x", "y"), line("c", "y", "z")], ["x,y,z"]),
    "one with a way in and a way out": (
        [line("in", "", "w"), line("a", "w y", "x"), line("b", "x", "y v"), line("out", "v")],
        ["x,y"],
    ),
    "two loops apart": (
        [line("a", "y", "x"), line("b", "x", "y"), line("c", "q", "p"), line("d", "p", "q")],
        ["p,q", "x,y"],
    ),
    "two loops through one consumer": (
        [line("a", "y q", "x p"), line("b", "x", "y"), line("c", "p", "q")],
        ["p,q,x,y"],
    ),
}


SAGA = line("a", "start ended", "begin done")
SOURCE = """
class Steps:
    BEGIN = "begin"

@consumer.handles("start", Start)
def start(event, tx):
    _begin(event, tx)

def _begin(event, tx):
    tx.publish(Steps.BEGIN, event)
{more}
@consumer.handles("ended", Ended)
def end(event, tx):
    {end}
"""
SOURCES = {
    "a handler that publishes another type": ("tx.publish('done', event)", "", False),
    "the same type": ("tx.publish('begin', event)", "", True),
    "through a function": ("_begin(event, tx)", "", True),
    "an unknown type": ("tx.publish('done', event); tx.publish(event.next, event)", "", True),
    "an indirect use": ("tx.publish('done', event); later(tx.publish)", "", True),
    "a refusal": ("tx.publish('done', 1)", "@consumer.rejects(No)\ndef no(): _begin()\n", True),
    "an outcome": ("tx.perform(e, 1)", "@consumer.completes(e)\ndef no(): _begin()\n", True),
    "another's outcome": (
        "tx.publish('done', 1)",
        "@consumer.completes(e)\ndef no(): _begin()\n",
        False,
    ),
    "a type that is published elsewhere": ("outside(tx)", "", False),
}
"""The end of a saga, further code of its module, and whether its first event may come again."""


def ids(*lines: ConsumerProps) -> list[str]:
    return [each.id for each in route_warnings(lines)]


@pytest.mark.parametrize("lines", [LINES, CHAIN], ids=["the shop", "a chain"])
def test_sound_routes_have_no_warning(lines: list[ConsumerProps]) -> None:
    assert ids(*lines) == []


@pytest.mark.parametrize(("lines", "loops"), LOOPS.values(), ids=LOOPS)
def test_a_loop_is_named_by_its_types(lines: list[ConsumerProps], loops: list[str]) -> None:
    assert ids(*lines) == [f"once:event-loop:{types}" for types in loops]
    assert ids(*reversed(lines)) == ids(*lines)


def test_a_loop_shows_the_way_of_its_events() -> None:
    [(_, text)] = route_warnings(LOOPS["three consumers"][0])
    assert text == (
        "events can cause one another without end: x → b → y; y → c → z; z → a → x; take a "
        "type out of events= or publishes=, or acknowledge this warning if the "
        "handlers end the loop"
    )


@pytest.mark.parametrize(("end", "more", "loops"), SOURCES.values(), ids=SOURCES)
def test_a_loop_goes_through_the_types_that_each_handler_publishes(
    tmp_path: Path, end: str, more: str, *, loops: bool
) -> None:
    (tmp_path / "handler.py").write_text(SOURCE.format(end=end, more=more))
    saga = replace(SAGA, folder=tmp_path)
    others = [line("b", "begin", "ended"), line("log", "done")]
    assert ids(saga, *others) == ["once:event-loop:begin,ended"] * loops
    assert ids(SAGA, *others) == ["once:event-loop:begin,ended"]  # without its source


def test_a_type_without_a_subscriber_is_a_warning() -> None:
    *others, last = CHAIN
    [(name, text)] = route_warnings([*others, replace(last, publishes=("lost",))])
    assert name == "once:no-subscriber:lost"
    assert text == (
        "consumer 'c' publishes 'lost', which no consumer takes: each such event goes into the "
        "unrouted queue, or, in a service without one, stays in its dedup record only; add the "
        "type to events= of a consumer, take it out of publishes=, or acknowledge this warning"
    )


def shown(stack: cdk.Stack) -> list[str]:
    found = Annotations.from_stack(stack).find_warning("*", Match.any_value())
    return [str(each.entry.data) for each in found]


@pytest.mark.parametrize("count", [150, 151])
def test_s3_more_types_than_a_filter_policy_takes_are_looked_at_without_one(
    tmp_path: Path, count: int
) -> None:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path)), "app")
    types = [f"type.{number}" for number in range(count)]
    lines = [line("a", " ".join(types[:75])), line("b", " ".join(types[75:]))]
    UnroutedEvents(stack, topics=Topics.make(stack, consumers=lines), consumers=lines)
    [subscription] = Template.from_stack(stack).find_resources("AWS::SNS::Subscription").values()
    policy = subscription["Properties"].get("FilterPolicy")
    assert policy == ({"type": [{"anything-but": sorted(types)}]} if count == 150 else None)


def test_an_app_of_its_own_warns_until_each_warning_is_acknowledged(tmp_path: Path) -> None:
    stack = cdk.Stack(cdk.App(outdir=str(tmp_path), context={"local": True}), "app")
    lines = [line("a", "y", "x"), line("b", "x", "y lost")]
    UnroutedEvents(stack, topics=Topics.make(stack, consumers=lines), consumers=lines)
    assert len(shown(stack)) == 2
    for each in ids(*lines):
        cdk.Annotations.of(stack).acknowledge_warning(each, "it ends after one round")
    assert shown(stack) == []
