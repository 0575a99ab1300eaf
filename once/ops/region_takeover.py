"""The commands `once region`: a deployment in two Regions, of which one takes over from the other.

In: the Region of the environment and the other one, with the same stacks. Out: mappings, queues,
replication and fence of both; a takeover, by steps that can each be repeated.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from botocore import exceptions
from botocore.exceptions import ClientError
from rich.table import Table
from typer import BadParameter, Option

from once.names import RELAY, UNROUTED, explained_by
from once.ops import terminal
from once.ops.aws.clients import client, in_region, total_depth
from once.ops.aws.deployment import Deployment
from once.ops.errors import ExitCode, OpsError
from once.ops.operator_changes import ChangeOptions, logged_change
from once.ops.pausing import LOOK_SECONDS, WAIT_SECONDS, switch_mappings
from once.ops.progress import find_deployment, saying
from once.ops.region_reconciliation import reconcile_command
from once.ops.status import MappingStatus, read_mappings

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

WAIT_FACTOR = 10
"""Times the highest `ReplicationLatency`, which AWS advises to wait before a failover."""

app = terminal.command_group()
app.command("reconcile")(reconcile_command)

_OtherService = Annotated[
    str | None,
    Option(metavar="SERVICE", help="Name of the deployment in the other Region, if it differs."),
]
_Wait = Annotated[
    float | None,
    Option(
        min=0,
        metavar="SECONDS",
        help="How long to wait for replication; by default ten times its highest latency in the "
        "last hour.",
    ),
]


class NotAnswering(Exception):
    """A service of a Region gives no answer, or one with a status from 500 on."""


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except (exceptions.ConnectionError, exceptions.HTTPClientError) as error:
        raise NotAnswering(str(error)) from error
    except ClientError as error:
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            raise NotAnswering(str(error)) from error
        raise


class Place(NamedTuple):
    """A Region, and the name of the deployment there."""

    region: str
    service: str


@dataclass(frozen=True, slots=True)
class Replica:
    """Replica of a table: the Regions of the others, and its highest latency in the last hour.

    `lag_ms` is that of replication to the other Region, in milliseconds; None if CloudWatch has
    none, as for strong consistency.
    """

    others: Sequence[str]
    is_strong: bool
    lag_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionalDeployment:
    """A deployment in one Region, as it was read.

    Attributes:
        mappings: the event source mappings by consumer, `RELAY` or `UNROUTED`.
        waiting: number of messages in the queues of each consumer, and in the sweep queue.
        replicas: the replica of each table that holds records or data, by its physical name.
    """

    place: Place
    deployment: Deployment
    mappings: Mapping[str, Sequence[MappingStatus]]
    waiting: Mapping[str, int]
    replicas: Mapping[str, Replica]

    @classmethod
    def read(cls, place: Place, other: Place) -> "RegionalDeployment":
        """Read a deployment and its replication to the other Region. Raises NotAnswering."""
        with in_region(place.region), _answering():
            found = find_deployment(place.service)
            mappings, consumers = read_mappings(), found.consumers.values()
            has_records = found.commands or any(one.item_table is None for one in consumers)
            tables = [*found.tables.values(), *([found.dedup_table] if has_records else [])]
            owners = {one.function_name: one.name for one in consumers}
            owners |= {f"{place.service}-{name}": name for name in found.kept_events}
            return cls(
                place=place,
                deployment=found,
                mappings={owner: mappings.get(name, ()) for name, owner in owners.items()},
                waiting=_waiting(found),
                replicas={name: _replica(name, other.region) for name in tables},
            )

    def chosen(self, *, disabled: bool) -> dict[str, list[MappingStatus]]:
        """Return the mappings that are disabled, or those that are not, by their owner."""
        found = {
            owner: [one for one in mappings if one.is_disabled is disabled]
            for owner, mappings in self.mappings.items()
        }
        return {owner: some for owner, some in found.items() if some}

    def as_json(self) -> dict[str, Any]:
        consumers = [
            {
                "consumer": name,
                "waiting": self.waiting.get(name),
                "mappings": [asdict(each) for each in mappings],
            }
            for name, mappings in self.mappings.items()
        ]
        tables = [{"table": name, **asdict(one)} for name, one in self.replicas.items()]
        return {**self.place._asdict(), "answers": True, "consumers": consumers, "tables": tables}


def _waiting(deployment: Deployment) -> dict[str, int]:
    urls = {one.name: one.queue_urls for one in deployment.consumers.values()}
    if deployment.sweep_queue_url:
        urls[UNROUTED] = (deployment.sweep_queue_url,)
    return {name: total_depth(client("sqs"), of).total for name, of in urls.items()}


def _replica(table: str, other: str) -> Replica:
    found: Any = client("dynamodb").describe_table(TableName=table)["Table"]
    others = [one["RegionName"] for one in found.get("Replicas", ())]
    dimensions = {"TableName": table, "ReceivingRegion": other}
    now = datetime.now(UTC)
    answer = client("cloudwatch").get_metric_data(
        MetricDataQueries=[
            {
                "Id": "lag",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/DynamoDB",
                        "MetricName": "ReplicationLatency",
                        "Dimensions": [{"Name": n, "Value": v} for n, v in dimensions.items()],
                    },
                    "Period": 60,
                    "Stat": "Maximum",
                },
            }
        ],
        StartTime=now - timedelta(hours=1),
        EndTime=now,
    )
    values = [value for result in answer["MetricDataResults"] for value in result["Values"]]
    strong = found.get("MultiRegionConsistency") == "STRONG"
    return Replica(others, strong, max(values, default=None))


@dataclass(frozen=True, slots=True)
class FunctionRoles:
    """The roles of the functions that commit, in both Regions: their names, as IAM is global.

    A name has the service, the rest of the stack's name, the logical id, and a random end. Service
    and end differ between the Regions. So the roles of a Region that is gone are found by those of
    the other one; not those that another tool has made.
    """

    partition: str
    account: str
    names: Sequence[str]

    @classmethod
    def read(cls, known: Iterable[RegionalDeployment], places: Sequence[Place]) -> "FunctionRoles":
        """Find the roles by the deployments that answer, of these places. Raises NotAnswering."""
        own, begins = dict[str, str](), list[str]()
        with _answering():
            for one in known:
                with in_region(one.place.region):
                    lambda_: LambdaClient = client("lambda")
                for function in _committing_functions(one.deployment):
                    arn = lambda_.get_function_configuration(FunctionName=function)["Role"]
                    own[name := arn.rpartition("/")[2]] = arn
                    service, mark, rest = name.partition(f"{one.place.service}-")
                    if mark and not service:
                        logical = rest.rpartition("-")[0]
                        begins += [f"{place.service}-{logical}-" for place in places]
            pages = client("iam").get_paginator("list_roles").paginate()
            names = [role["RoleName"] for page in pages for role in page["Roles"]]
        found = [name for name in names if name in own or name.startswith((*begins,))]
        _, partition, _, _, account, _ = next(iter(own.values())).split(":", 5)
        return cls(partition, account, sorted(found))

    def fence(self, region: str) -> "Fence":
        """Read the fence of a Region. Raises NotAnswering."""
        iam, fenced = client("iam"), []
        for name in self.names:
            with _answering(), suppress(iam.exceptions.NoSuchEntityException):
                iam.get_role_policy(RoleName=name, PolicyName=f"once-fence-{region}")
                fenced.append(name)
        return Fence(region, self, fenced, [name for name in self.names if name not in fenced])


def _committing_functions(deployment: Deployment) -> list[str]:
    hooks = deployment.webhooks
    return [
        *(one.function_name for one in deployment.consumers.values()),
        *(one.function_name for one in deployment.commands.values()),
        *([] if hooks is None else [f"{deployment.service}-{hooks.identity}"]),
    ]


@dataclass(frozen=True, slots=True)
class Fence:
    """The fence of a Region: names of function roles with the denial of writes, and without it.

    The denial names the tables of one Region, so that a role of the other one may have it as well.
    """

    region: str
    roles: FunctionRoles
    fenced: Sequence[str]
    open: Sequence[str]

    @property
    def policy(self) -> str:
        """The denial of every write to a table of the Region, in JSON."""
        of = self.roles
        denial = {
            "Effect": "Deny",
            "Action": [f"dynamodb:{name}Item" for name in ("Put", "Update", "Delete")],
            "Resource": f"arn:{of.partition}:dynamodb:{self.region}:{of.account}:table/*",
        }
        return json.dumps({"Version": "2012-10-17", "Statement": [denial]})

    def close(self) -> None:
        """Attach the denial where it is missing."""
        for role in self.open:
            client("iam").put_role_policy(**self._named(role), PolicyDocument=self.policy)

    def lift(self) -> None:
        """Delete the denial."""
        for role in self.fenced:
            client("iam").delete_role_policy(**self._named(role))

    def _named(self, role: str) -> dict[str, str]:
        return {"RoleName": role, "PolicyName": f"once-fence-{self.region}"}

    def as_json(self) -> dict[str, Any]:
        return {"fenced": self.fenced, "open": self.open}


@dataclass(slots=True)
class Step:
    """A step of a takeover. `state` is `to do`, `done`, `done already`, or why it is not possible.

    What it does may be repeated.
    """

    what: str
    state: str
    do: Callable[[], None] = lambda: None


TO_DO, DONE, DONE_ALREADY = "to do", "done", "done already"


def _step(what: str, do: Callable[[], None], *, needed: object) -> Step:
    return Step(what, TO_DO, do) if needed else Step(what, DONE_ALREADY)


class Takeover:
    """A takeover by a Region from another one, which is drained first, or was pulled.

    Args:
        source: the Region that was in charge.
        target: the Region that takes over.
        drained: whether the source answers, and has no more messages.
        wait: seconds to wait for replication; None for `WAIT_FACTOR` times its latency.
    """

    def __init__(self, source: Place, target: Place, *, drained: bool, wait: float | None) -> None:
        self.source, self.target = source.region, target.region
        self._drained, self._wait, self._places = drained, wait, (source, target)
        there, self._from = _read(target, source), _read(source, target)
        if there is None or (drained and self._from is None):
            silent = self.target if there is None else self.source
            raise OpsError(f"nothing was changed: {silent} does not answer")
        self._to = there
        alone = [name for name, one in self._to.replicas.items() if self.source not in one.others]
        if alone:
            raise OpsError(
                f"nothing was changed: {', '.join(alone)} in {self.target} has no replica in "
                f"{self.source}, and nothing of what was committed there: {explained_by('regions')}"
            )
        if self._from and drained:
            self._check_empty(self._from.waiting)

    def _check_empty(self, waiting: Mapping[str, int]) -> None:
        if left := [f"{name} {number}" for name, number in waiting.items() if number]:
            raise OpsError(
                f"{self.source} is not drained: messages wait or are processed there "
                f"({', '.join(left)}); stop its senders, let it process them, and run this command "
                "again"
            )

    def steps(self) -> list[Step]:
        """Return the steps in their order, as far as they are done already."""
        strong = all(one.is_strong for one in self._to.replicas.values())
        on = self._from.chosen(disabled=False) if self._from else {}
        disable = f"disable the event source mappings in {self.source}{_of(on)}"
        steps = [_step(disable, partial(self._stop, on), needed=on)]
        if self._from is None:
            steps = [Step(disable, f"not possible: {self.source} does not answer")]
        fence = Step(f"fence {self.source}: deny writes to its tables", DONE_ALREADY)
        lifted = []
        try:
            roles = FunctionRoles.read(filter(None, (self._from, self._to)), self._places)
            of_source, of_target = roles.fence(self.source), roles.fence(self.target)
            fence = _step(fence.what + _of(of_source.open), of_source.close, needed=of_source.open)
            if of_target.fenced:
                what = f"lift the fence of {self.target}{_of(of_target.fenced)}"
                lifted = [Step(what, TO_DO, of_target.lift)]
        except NotAnswering as error:
            fence.state = f"not possible: IAM does not answer ({error})"
        steps += [] if strong else [fence]
        if self._drained and not strong:
            seconds = self._replication_seconds()
            what = f"wait {seconds:g} s for replication to {self.target}"
            steps.append(Step(what, TO_DO, partial(time.sleep, seconds)))
        steps += lifted
        off = self._to.chosen(disabled=True)
        relay = {RELAY: off.pop(RELAY)} if RELAY in off else {}
        for mappings, name in ((off, "consumers"), (relay, "relay")):
            what = f"enable the event source mappings in {self.target} of the {name}{_of(mappings)}"
            do = partial(_switch, self.target, mappings, enabled=True)
            steps.append(_step(what, do, needed=mappings))
        return steps

    def _stop(self, mappings: Mapping[str, Sequence[MappingStatus]]) -> None:
        _switch(self.source, mappings, enabled=False)
        if not self._drained or self._from is None:
            return
        end = time.monotonic() + WAIT_SECONDS
        with in_region(self.source):
            while any((waiting := _waiting(self._from.deployment)).values()):
                if time.monotonic() > end:
                    # The target will not see messages that have arrived in the meantime.
                    _switch(self.source, mappings, enabled=True)
                    self._check_empty(waiting)
                time.sleep(LOOK_SECONDS)

    def _replication_seconds(self) -> float:
        replicas = self._from.replicas if self._from else {}
        if self._wait is not None:
            return self._wait
        known = [one.lag_ms for one in replicas.values() if one.lag_ms is not None]
        if not known:
            raise OpsError(
                f"nothing was changed: CloudWatch has no ReplicationLatency of {self.source} in "
                "the last hour; give --wait SECONDS"
            )
        return WAIT_FACTOR * max(known) / 1000

    def run(self, steps: Sequence[Step], command: str, why: str | None) -> None:
        """Do the steps, with entries in the operator log of the target."""
        told = {"from": self.source, "to": self.target, "drained": self._drained}
        with (
            in_region(self.target),
            logged_change(self._to.deployment, command, told, why) as change,
        ):
            for step in steps:
                if step.state == TO_DO:
                    with saying(step.what):
                        step.do()
                    step.state = DONE
                    change.counts = {"steps": sum(one.state == DONE for one in steps)}


def _read(place: Place, other: Place) -> RegionalDeployment | None:
    """Return the deployment in a Region; None if the Region does not answer."""
    with suppress(NotAnswering), saying(f"reading {place.region}"):
        return RegionalDeployment.read(place, other)
    return None


def _of(things: Sequence[str] | Mapping[str, Any]) -> str:
    return f" ({', '.join(things)})" if things else ""


def _switch(region: str, mappings: Mapping[str, Sequence[MappingStatus]], *, enabled: bool) -> None:
    with in_region(region):
        switch_mappings([one for some in mappings.values() for one in some], enabled=enabled)


@app.command("status")
def status_command(
    other: Annotated[str, Option(metavar="REGION", help="The other Region of the deployment.")],
    other_service: _OtherService = None,
    service: terminal.ServiceOption = "once",
    as_json: terminal.JsonOption = False,
) -> None:
    """Show mappings, waiting messages, replication and fence of a deployment in two Regions.

    One Region is that of the environment. The command ends with exit code 4 if the relays of
    both run, which would publish each event twice, or if a Region does not answer.
    """
    here, there = _places(service, other, other_service)
    found = {a: _read(a, b) for a, b in ((here, there), (there, here))}
    known = [one for one in found.values() if one]
    if not known:
        raise OpsError(f"neither {here.region} nor {other} answers")
    fences: dict[Place, Fence] = {}
    with suppress(NotAnswering):
        roles = FunctionRoles.read(known, (here, there))
        fences = {place: roles.fence(place.region) for place in found}
    faults = [f"{place.region} does not answer" for place, one in found.items() if one is None]
    if sum(RELAY in one.chosen(disabled=False) for one in known) > 1:
        both = f"the relays of {here.region} and {other} run: each event is published twice"
        faults.append(both)
    if as_json:
        regions = [
            (one.as_json() if one else {**place._asdict(), "answers": False})
            | {"fence": fences[place].as_json() if fences else None}
            for place, one in found.items()
        ]
        terminal.print_json({"regions": regions, "faults": faults})
    else:
        for one in known:
            terminal.console.print(_mapping_table(one))
            terminal.console.print(_replica_table(one))
        for place, fence in fences.items():
            told = (
                f"{place.region}: {len(fence.fenced)} of {len(fence.roles.names)} roles are fenced"
            )
            terminal.console.print(told)
        if not fences:
            terminal.console.print("IAM does not answer: the fences are not known")
    if faults:
        told = "".join(f"\n  {one}" for one in faults)
        remedy = f"{explained_by('the-region-is-gone')} says what to do"
        raise OpsError(f"{remedy}{told}", ExitCode.STUCK)


def _places(service: str, other: str, other_service: str | None) -> tuple[Place, Place]:
    """Return the place of the environment, and the other one."""
    here = str(client("sts").meta.region_name)
    if other == here:
        raise BadParameter(f"{other} is the Region of the environment: name the other one")
    return Place(here, service), Place(other, other_service or service)


def _mapping_table(found: RegionalDeployment) -> Table:
    table = terminal.table(found.place.region, "mappings", ">waiting")
    for name, mappings in found.mappings.items():
        states = ", ".join(sorted({one.state for one in mappings})) or terminal.UNKNOWN
        table.add_row(name, states, str(found.waiting.get(name, terminal.UNKNOWN)))
    return table


def _replica_table(found: RegionalDeployment) -> Table:
    table = terminal.table(
        f"table in {found.place.region}", "replicas in", "consistency", ">lag (ms)"
    )
    for name, one in found.replicas.items():
        kind = "strong" if one.is_strong else "eventual"
        lag = terminal.UNKNOWN if one.lag_ms is None else f"{one.lag_ms:.0f}"
        table.add_row(name, ", ".join(one.others) or "none", kind, lag)
    return table


@app.command("fail-over")
def fail_over_command(
    other: Annotated[str, Option(metavar="REGION", help="The Region that takes over.")],
    how: ChangeOptions,
    drained: Annotated[
        bool, Option("--drained", help="This Region answers, and has no more messages.")
    ] = False,
    pulled: Annotated[
        bool, Option("--pulled", help="It is gone, or has come back: do not wait for it.")
    ] = False,
    wait: _Wait = None,
    other_service: _OtherService = None,
    service: terminal.ServiceOption = "once",
) -> None:
    """Let the other Region take over from that of the environment.

    The event source mappings of this Region are disabled, its functions' writes are denied in
    IAM, and the mappings of the other Region are enabled, the relay's last. With --pulled, what
    is not possible is left out, and the command ends with exit code 1: run it again when the
    Region answers, or IAM does. Each step is done once, however often the command is run.
    """
    if drained is pulled:
        raise BadParameter("give exactly one of these", param_hint="--drained or --pulled")
    here, there = _places(service, other, other_service)
    takeover = Takeover(here, there, drained=drained, wait=wait)
    _take_over(takeover, "region fail-over", how)


@app.command("fail-back")
def fail_back_command(
    other: Annotated[str, Option(metavar="REGION", help="The Region that took over.")],
    how: ChangeOptions,
    wait: _Wait = None,
    other_service: _OtherService = None,
    service: terminal.ServiceOption = "once",
) -> None:
    """Go back to the Region of the environment, from the drained one that had taken over.

    As `once region fail-over --drained` in the other direction; the denial of writes is removed
    from the functions of this Region. Wait until replication is at rest in both directions.
    """
    here, there = _places(service, other, other_service)
    takeover = Takeover(there, here, drained=True, wait=wait)
    _take_over(takeover, "region fail-back", how)


def _take_over(takeover: Takeover, command: str, how: ChangeOptions) -> None:
    with saying("reading roles"):
        steps = takeover.steps()
    to_do = any(step.state == TO_DO for step in steps)
    question = f"let {takeover.target} take over from {takeover.source}?" if to_do else None
    if how.agreed(question, *(f"{step.state:<12}  {step.what}" for step in steps)):
        takeover.run(steps, command, how.why)
    if how.as_json:
        done = [{"what": step.what, "state": step.state} for step in steps]
        known = {"dry_run": how.dry_run, "from": takeover.source, "to": takeover.target}
        terminal.print_json(known | {"steps": done})
    elif to_do and not how.dry_run:
        told = (
            f"{takeover.target} is in charge; next: point the senders there, and publish there "
            "what the other relay did not: `once outbox republish --since 1d`"
        )
        terminal.console.print(told, soft_wrap=True)
    left = [f"{step.what}: {step.state}" for step in steps if step.state.startswith("not possible")]
    if left and not how.dry_run:
        raise OpsError("run this command again when it is possible:\n  " + "\n  ".join(left))
