"""Scenario `region`: two takeovers between Regions and two ways back, under traffic.

In: a deployment in one Region, to which the scenario adds replicas and a standby. Out:
`reports/region.json`, and whether every change was made once. Bookings have item dedup, movements
have dedup records of their own; both are drained once. Then the Region is pulled amid bookings,
and comes back with its queues and its mappings enabled.

Replication of the embedded AWS has no lag, no conflict and no strong consistency. Those are parts
of `make sim`. Functions, queues, mappings, IAM and the commands are run for real here.
"""

import json
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from threading import Event

from demo.audit.evidence import count_fates
from demo.background import background
from demo.quiescence import wait_until
from demo.report import console, report_figures, step
from demo.scenarios import drawn_seed
from demo.scenarios.apps import BOOKINGS, IN_TWO_REGIONS, STANDBY
from demo.shop import Shop, deploy_service, subscribers
from once import Producer
from once.events.outgoing import OutgoingEvent
from once.ops.aws.clients import batches, total_depth

OTHER_REGION = "eu-central-1"
MANY, FEW, ACCOUNTS = 150, 40, 10
"""Bookings of a round, movements of a round, and their accounts."""
FAILING_SHARE = 0.05
_BOOKED, _MOVED = "seat.booked", "account.moved"
_TIMEOUT_SECONDS = 120.0
_MINIMUM = {
    "resent": 400,
    "failed_once": 1,
    "applied_before_pull": 10,
    "waiting_at_pull": 10,
    "denied_attempts": 50,
}
_LABELS = {
    "sent": "bookings and movements sent",
    "resent": "sent once more",
    "failed_once": "movements whose first attempt fails",
    "applied_before_pull": "bookings applied when their Region was pulled",
    "waiting_at_pull": "bookings that waited there",
    "denied_attempts": "attempts that the fence denied",
    "seconds": "seconds",
    "lost": "lost",
    "doubled": "doubled",
    "commits_after_fence": "commits after the fence",
    "invented": "applied but never sent",
    "differing": "items that differ between the Regions",
}

Applied = Mapping[str, Sequence[str]]
"""Ids of the changes that each table of a Region has applied, once for each time."""


@dataclass(frozen=True, slots=True)
class Round:
    """The traffic of one round: ids of bookings, and movements by account and number."""

    bookings: Sequence[str]
    movements: Sequence[tuple[str, int, bool]] = ()

    @classmethod
    def draw(cls, number: int, random: Random, *, movements: int = FEW) -> "Round":
        first = number * movements
        numbers = range(first, first + movements)
        return cls(
            [f"booking-{number}-{each}" for each in range(MANY)],
            [(f"a-{n % ACCOUNTS}", n, random.random() < FAILING_SHARE) for n in numbers],
        )

    def events(self, shop: Shop) -> list[OutgoingEvent]:
        make = _producer(shop).event
        return [
            *(make(_BOOKED, {"booking_id": each}, event_id=each) for each in self.bookings),
            *(
                make(
                    _MOVED,
                    {"account_id": account, "number": number, "fails": fails},
                    event_id=f"{account}-{number}",
                )
                for account, number, fails in self.movements
            ),
        ]

    def __len__(self) -> int:
        return len(self.bookings) + len(self.movements)


def count_changes(sent: Iterable[Round], tables: Iterable[Applied]) -> dict[str, int]:
    """Compare what the tables of each Region have applied with what was sent.

    Returns:
        Figures that must be 0.
    """
    bookings, movements = Counter[str](), Counter[str]()
    for each in sent:
        bookings.update(each.bookings)
        movements.update(str(number) for _, number, _ in each.movements)
    wanted = {"bookings": bookings, "accounts": movements, "statements": movements}
    found = [{name: Counter(region.get(name, ())) for name in wanted} for region in tables]

    def total(excess: Mapping[str, Counter[str]]) -> int:
        return sum(each.total() for each in excess.values())

    return {
        "lost": sum(total({n: wanted[n] - each[n] for n in wanted}) for each in found),
        "doubled": sum(total({n: each[n] - Counter({*each[n]}) for n in wanted}) for each in found),
        "invented": sum(len({*each[n]} - {*wanted[n]}) for each in found for n in wanted),
        "differing": sum(total({n: found[0][n] - each[n] for n in wanted}) for each in found)
        + sum(total({n: each[n] - found[0][n] for n in wanted}) for each in found),
    }


def region(shop: Shop, deploy_seconds: float) -> bool:
    """Fail over and back under traffic, drained and pulled, and write `reports/region.json`.

    Returns:
        Whether each change was made once in both Regions, and none after a fence.
    """
    started = time.monotonic()
    seed = drawn_seed()
    console.print(f"seed {seed}")
    with step(f"a standby in {OTHER_REGION}, with replicas of the tables"):
        standby = deploy_standby(shop)
    figures, counts = _play(shop, standby, Random(seed))
    counts["seconds"] = round(time.monotonic() - started + deploy_seconds, 1)
    return report_figures(
        "region",
        "Two Regions, from the tables of both",
        _LABELS,
        {**counts, **figures},
        figures,
        good="each change was made once, in whichever Region, and none after the fence",
        minimum=_MINIMUM,
    )


def deploy_standby(shop: Shop) -> Shop:
    """Add replicas of a deployment's tables, and deploy a standby on them."""
    dynamodb, deployment = shop.aws.client("dynamodb"), shop.deployment
    there = replace(shop.aws, region=OTHER_REGION)
    replicas = {}
    for name, table in {**deployment.tables, "dedup-records": deployment.dedup_table}.items():
        added = {"Create": {"RegionName": OTHER_REGION}}
        dynamodb.update_table(TableName=table, ReplicaUpdates=[added])
        made = there.client("dynamodb").describe_table(TableName=table)["Table"]
        replicas[name] = (made["TableArn"], made["LatestStreamArn"])
    app = f"python3 -m demo.scenarios.apps region {shlex.quote(json.dumps(replicas))}"
    made = deploy_service(there, shop.sandbox.url, app=app, service=STANDBY)
    return Shop(there, shop.sandbox, made)


def _play(here: Shop, there: Shop, random: Random) -> tuple[dict[str, int], dict[str, float]]:
    """Take over and go back twice, and audit.

    Returns:
        The figures that must be 0, and the size of the run.
    """
    over = ("region", "fail-over", "--other", OTHER_REGION, "--other-service", STANDBY)
    back = ("region", "fail-back", "--other", OTHER_REGION, "--other-service", STANDBY)
    agreed = ("--wait", "1", "--yes")
    rounds = [Round.draw(number, random) for number in range(3)]
    _send(here, random, rounds[0], rounds[0])
    _wait(here)
    here.once(*over, "--drained", *agreed)
    _send(there, random, rounds[0], rounds[1], rounds[1])
    _wait(there)
    here.once(*back, *agreed)
    _send(here, random, rounds[1], rounds[2], rounds[2])
    _wait(here)
    late, during = (Round.draw(n, random, movements=0) for n in (3, 4))
    already, booked = _applied_bookings(here), list[str]()
    with background("sender", lambda over: _keep_booking(here, booked, over)):
        wait_until(
            "some bookings are applied",
            lambda: _applied_bookings(here) >= already + _MINIMUM["applied_before_pull"],
            timeout=_TIMEOUT_SECONDS,
        )
        here.once(*over, "--pulled", "--yes")
        applied = _applied_bookings(here) - already
    pulled = Round(booked)
    # It comes back: its mappings are enabled, as its deployment has them, and its senders send.
    retried = _retried(here)
    _enable_mappings(here)
    _send(here, random, late)
    _send(there, random, pulled, during)  # what may be lost is sent again
    _wait(there)
    with step("waiting until the fence has denied enough attempts"):
        wait_until(
            "the returning Region has tried to commit",
            lambda: (
                _retried(here) >= retried + _MINIMUM["denied_attempts"]
                or not total_depth(here.aws.client("sqs"), here.queues(BOOKINGS.name)).total
            ),
            timeout=_TIMEOUT_SECONDS,
        )
    commits = len({*late.bookings} & {*_applied(here)["bookings"], *_applied(there)["bookings"]})
    attempts = _retried(here) - retried
    here.once(*over, "--pulled", "--yes")  # again, as the runbook says: it disables the mappings
    here.once(*back, *agreed)
    _wait(here)
    every = [*rounds, pulled, late, during]
    with step("auditing"):
        figures = count_changes(every, [_applied(here), _applied(there)])
    counts: dict[str, float] = {
        "sent": sum(map(len, every)),
        "resent": sum(map(len, [*rounds, *rounds[:2], pulled, pulled])),
        "failed_once": sum(fails for each in rounds for _, _, fails in each.movements),
        "applied_before_pull": applied,
        "waiting_at_pull": len(pulled) - applied,
        "denied_attempts": attempts,
    }
    return {**figures, "commits_after_fence": commits}, counts


def _producer(shop: Shop) -> Producer:
    topic = shop.deployment.ingress_topic(_BOOKED)
    return Producer(source="/two-regions", topic_arn=topic, sns=shop.aws.client("sns"))


def _send(shop: Shop, random: Random, *rounds: Round) -> None:
    events = [event for each in rounds for event in each.events(shop)]
    random.shuffle(events)
    with step(f"sending {len(events)} messages to {shop.aws.region}"):
        for some in batches(events):
            _producer(shop).publish(some)


def _keep_booking(shop: Shop, booked: list[str], over: Event) -> None:
    """Send bookings, each twice, until the event is set; add their ids to a list."""
    while not over.is_set():
        some = Round([f"booking-{len(booked) + n}" for n in range(5)])
        booked.extend(some.bookings)
        _producer(shop).publish(some.events(shop) * 2)


def _wait(shop: Shop) -> None:
    evidence = replace(shop.evidence(), subscribers=subscribers(IN_TWO_REGIONS))
    queues = shop.queues(*(each.name for each in IN_TWO_REGIONS))
    shop.wait_until_processed(evidence, queues, _TIMEOUT_SECONDS)


def _applied(shop: Shop) -> Applied:
    evidence = shop.evidence()
    found: dict[str, list[str]] = {
        name: [each["N"] for item in evidence.items(name) for each in item["applied"]["L"]]
        for name in ("accounts", "statements")
    }
    found["bookings"] = [
        item["booking_id"]["S"]
        for item in evidence.items("bookings")
        for _ in range(int(item["times"]["N"]))
    ]
    return found


def _applied_bookings(shop: Shop) -> int:
    return sum(1 for _ in shop.evidence().items("bookings"))


def _retried(shop: Shop) -> int:
    """Return how many deliveries of bookings have failed in a Region, and stayed in the queue."""
    consumer = shop.deployment.consumer(BOOKINGS.name)
    fates = count_fates(shop.aws.client("logs"), f"/aws/lambda/{consumer.function_name}")
    return fates["retried"]


def _enable_mappings(shop: Shop) -> None:
    client = shop.aws.client("lambda")
    for name in shop.functions(*(each.name for each in IN_TWO_REGIONS)):
        for found in client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
            client.update_event_source_mapping(UUID=found["UUID"], Enabled=True)
