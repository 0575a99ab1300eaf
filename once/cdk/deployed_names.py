"""The names of a deployment that hold data, the file that records them, and the check against it.

A name that was deployed and is missing from the registry later is a renamed or removed consumer,
table, secret or endpoint of webhooks: its messages or its data would be left behind. Under another
identity a consumer would apply committed events again. The file is committed.
"""

import itertools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import msgspec

from once.cdk.checks.property_types import has_type
from once.cdk.props import (
    CommandProps,
    ConsumerProps,
    Line,
    Rollout,
    WebhookProps,
    later_types,
    named,
)
from once.cdk.synth_error import SynthError
from once.names import explained_by
from once.settings import Dedup


class DeployedNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names that hold data.

    Attributes:
        consumers: the identity of each consumer, by its name.
        fifo: names of the consumers with a FIFO queue.
        tables: the key attributes of each business table, by its name.
        secrets: names of secrets.
        endpoints: names of the endpoints of each webhook ingress, by the ingress's name.
        commands: names of functions with commands.
        due_events: event types that are published later.
        stacks: the number of each consumer's stack; without those in the service stack, the first.
        uses: the parts of the latest deployment that each line's code may use, by its name.
    """

    consumers: dict[str, str] = {}
    fifo: tuple[str, ...] = ()
    tables: dict[str, tuple[str, ...]] = {}
    secrets: tuple[str, ...] = ()
    endpoints: dict[str, tuple[str, ...]] = {}
    commands: tuple[str, ...] = ()
    due_events: tuple[str, ...] = ()
    stacks: dict[str, int] = {}
    uses: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of(cls, lines: Iterable[Line], stacks: Mapping[str, int] = {}) -> Self:
        """Return the names of a registry's lines."""
        registry = list(lines)
        consumers = [each for each in registry if isinstance(each, ConsumerProps)]
        commands = [each for each in registry if isinstance(each, CommandProps)]
        writers: list[ConsumerProps | CommandProps] = [*consumers, *commands]
        return cls(
            consumers={each.name: each.identity for each in consumers},
            fifo=_sorted(each.name for each in consumers if each.fifo),
            tables={table.name: table.keys for each in writers for table in each.tables},
            secrets=_sorted(secret for each in consumers for secret in each.secrets),
            endpoints={
                each.name: _sorted(endpoint.name for endpoint in each.endpoints)
                for each in registry
                if isinstance(each, WebhookProps)
            },
            commands=_sorted(each.name for each in commands),
            due_events=_sorted(later_types(registry)),
            stacks=dict(stacks),
            uses={each.name: used for each in writers if (used := _sorted(_uses(each)))},
        )

    @classmethod
    def read(cls, file: Path, service: str) -> "DeployedNames":
        """Return the names that a file records for one deployment.

        Args:
            file: a JSON object with the names of each deployment; `{}` if there is none yet.
            service: the name of the deployment.
        """
        return _read(file).get(service, cls())

    def place(self, consumers: Iterable[ConsumerProps], most: int) -> list[list[ConsumerProps]]:
        """Divide a registry into stacks; return the consumers of each, in their order.

        A deployed consumer stays where it is: in another stack its queues would be new ones, and
        those with its messages would be left behind. Every other one goes into the first stack
        that has less than `most`. A stack whose last line was deleted remains, and is empty.
        """
        lines = list(consumers)
        deployed = {name: self.stacks.get(name, 1) for name in self.consumers}
        number = {each.name: deployed.get(each.name, 0) for each in lines}
        sizes = Counter(number.values())
        for name in (name for name, at in number.items() if not at):
            number[name] = next(n for n in itertools.count(1) if sizes[n] < most)
            sizes[number[name]] += 1
        last = max((1, *number.values(), *self.stacks.values()))
        return [[each for each in lines if number[each.name] == n] for n in range(1, last + 1)]

    def record(self, file: Path, service: str) -> list[str]:
        """Add the names to those that a file records for one deployment, and return the new ones.

        Names are never taken out here: a person does that when they hold no data any more. The
        parts that a consumer uses are those of its latest deployment.
        """
        every = _read(file)
        known = every.get(service, DeployedNames())
        deployed = {*self.consumers, *self.commands}
        every[service] = DeployedNames(
            consumers={**known.consumers, **self.consumers},
            fifo=_sorted((*known.fifo, *self.fifo)),
            tables={**known.tables, **self.tables},
            secrets=_sorted((*known.secrets, *self.secrets)),
            endpoints={
                name: _sorted((*known.endpoints.get(name, ()), *self.endpoints.get(name, ())))
                for name in (*known.endpoints, *self.endpoints)
            },
            commands=_sorted((*known.commands, *self.commands)),
            due_events=_sorted((*known.due_events, *self.due_events)),
            stacks={**known.stacks, **self.stacks},
            uses={n: u for n, u in known.uses.items() if n not in deployed} | self.uses,
        )
        file.write_text(json.dumps(msgspec.to_builtins(every), indent=2, sort_keys=True) + "\n")
        recorded = {*known.by_kind()}
        return [name for kind, name in self.by_kind() if (kind, name) not in recorded]

    def by_kind(self) -> Iterator[tuple[str, str]]:
        """Yield each name that a deployment must keep, after the kind of its part."""
        yield from (("consumer", name) for name in sorted(self.consumers))
        yield from (("commands", name) for name in self.commands)
        yield from (("table", name) for name in sorted(self.tables))
        yield from (("secret", name) for name in self.secrets)
        yield from (("due event", name) for name in self.due_events)
        for ingress, names in self.endpoints.items():
            yield from ((ingress, f"{ingress}/{name}") for name in names)


def _read(file: Path) -> dict[str, DeployedNames]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, DeployedNames])
    except (OSError, msgspec.DecodeError) as error:
        fault = (
            f"{file} cannot be read ({error}); restore it from version control, or write {{}} if "
            "nothing was ever deployed"
        )
        raise SynthError("the deployed names are not known", [fault]) from None


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*names}))


def _key(attributes: tuple[str, ...]) -> str:
    return repr(attributes[0] if len(attributes) == 1 else attributes)


def _uses(line: ConsumerProps | CommandProps) -> Iterator[str]:
    """Yield each part that a line lets its code use."""
    yield from (f"the table {table.name!r}" for table in line.tables)
    yield from (f"the published type {event!r}" for event in line.publishes)
    yield from (f"the later publishing of {event!r}" for event in line.publishes_later)
    if isinstance(line, CommandProps):
        return
    yield from (f"the secret {name!r}" for name in line.secrets)
    yield from (f"the workflow {workflow.name!r}" for workflow in line.starts)
    flags = ("sends_email", "claim_check_mb", "effect_timeout_seconds")
    yield from (name for name in flags if getattr(line, name))
    if line.batch_size > 1 and not line.fifo:
        yield "the isolation queue"
    if line.dedup is Dedup.RECORD:
        yield "the dedup table"
    elif line.group_size == 1:
        yield "writes outside a transaction"


STEPS = explained_by("rename-or-remove-a-consumer")
DUE_STEPS = explained_by("stop-publishing-a-type-later")
ENDPOINT_STEPS = explained_by("remove-an-endpoint")


def missing_name_faults(deployed: DeployedNames, lines: Collection[Line]) -> Iterator[str]:
    """Yield a fault for each deployed name that a registry has lost or gives another identity.

    Args:
        deployed: the names that are recorded as deployed.
        lines: the registry. With a property of a wrong type, which is a fault of its own, it is not
            compared.
    """
    if not all(has_type(each, Line) for each in lines):
        return
    yield from _consumer_faults(deployed, [x for x in lines if isinstance(x, ConsumerProps)])
    names = DeployedNames.of(lines)
    # CloudFormation replaces a table when its key schema changes, under the same logical id.
    for name, keys in names.tables.items():
        before = deployed.tables.get(name, keys)
        if keys != before:
            yield (
                f"table {name!r} was deployed with the key {_key(before)} and has {_key(keys)} "
                "now: an empty table would take its place, and the one with the data would be "
                "left behind; put the key back. For another key, add a table with another name "
                "and move the data there, or delete the recorded name if it holds none"
            )
    now = {*names.by_kind()}
    for kind, name in deployed.by_kind():
        if kind == "consumer" or (kind, name) in now:
            continue
        if kind == "commands":
            yield (
                f"commands {name!r} were deployed and have no line: under another name a request "
                "that is sent again would take effect again; put the line back, or delete the "
                "recorded name once no client repeats a request to it"
            )
        elif kind == "due event":
            yield (
                f"{name!r} was published later and no line has it in publishes_later=: events of "
                "this type may still wait, and nothing that is deployed would then let EventBridge "
                "Scheduler publish them; put it back, deploy handlers that publish no more of "
                f"them, and delete type and recorded name once none waits ({DUE_STEPS})"
            )
        elif kind in {"table", "secret"}:
            yield (
                f"{kind} {name!r} was deployed and no line has it: it would be left behind with "
                "its value, and a new name would begin empty; put it back, or delete the recorded "
                "name once its data is moved or no longer needed"
            )
        else:
            yield (
                f"endpoint {name.partition('/')[2]!r} of the webhook ingress {kind!r} was deployed "
                "and is missing: its provider would still send there, and under another name or "
                "ingress a webhook that is sent again would be handed on again; put it back, or "
                "delete the recorded name once the provider sends no more to it "
                f"({ENDPOINT_STEPS})"
            )


ROLLOUT_STEPS = explained_by("remove-a-table-secret-or-workflow")


def lost_use_faults(deployed: DeployedNames, lines: Iterable[Line]) -> Iterator[str]:
    """Yield a fault for each part that a line loses, while a rollout moves its traffic in steps.

    Both versions have one role, and one relay, which change before the first step.
    """
    for each in lines:
        if isinstance(each, WebhookProps) or not has_type(each, Line):
            continue
        if each.rollout is Rollout.ALL_AT_ONCE:
            continue
        for lost in sorted({*deployed.uses.get(each.name, ())} - {*_uses(each)}):
            yield (
                f"{named(each)} loses {lost}, which its deployed code may use: until the "
                f"rollout {each.rollout.name} ends, that code would be denied it, and an alarm "
                "would move the traffic back. Put it back and deploy code that does not use it. "
                "Then take it out of the line, and out of uses of the recorded names, in a later "
                "deployment. Or move all traffic at once with -c gradual_rollout=false "
                f"({ROLLOUT_STEPS})"
            )


def _consumer_faults(
    deployed: DeployedNames, consumers: Collection[ConsumerProps]
) -> Iterator[str]:
    lines = {consumer.name: consumer for consumer in consumers}
    new = (repr(each.name) for each in consumers if each.name not in deployed.consumers)
    rename = " or ".join(new) or "its new name"
    for name, identity in deployed.consumers.items():
        line = lines.get(name)
        if line is None:
            yield (
                f"consumer {name!r} was deployed and has no line: its queues may hold messages and "
                "dead letters, and under another name it would apply committed events again; put "
                f"its line back. To rename it, add a second line, {rename}, with "
                f"renamed_from={identity!r}; to remove it, set retiring=True. Deploy, wait until "
                "its queues are empty, and delete line and recorded name together; at once if it "
                f"was never deployed from here ({STEPS})"
            )
        elif line.identity != identity:
            first = "no renamed_from" if name == identity else f"renamed_from={identity!r}"
            yield (
                f"consumer {name!r} was deployed with the identity {identity!r}, with which its "
                "dedup keys begin: under another it would apply committed events again; give it "
                f"{first} ({STEPS})"
            )
        elif line.fifo != (name in deployed.fifo):
            before, after = ("standard", "FIFO") if line.fifo else ("FIFO", "standard")
            yield (
                f"consumer {name!r} was deployed with a {before} queue, which cannot become a "
                f"{after} one: its messages would be left behind; put its line back as it was, and "
                f"add a second line with another name, renamed_from={line.identity!r} and "
                f"fifo={line.fifo} ({STEPS})"
            )
    # A line must not retire before the line of its new name was deployed.
    heirs = {
        each.identity: each.name
        for each in consumers
        if not each.retiring and each.name not in deployed.consumers
    }
    for each in consumers:
        if each.retiring and each.name in deployed.consumers and each.identity in heirs:
            yield (
                f"consumer {each.name!r} retires before {heirs[each.identity]!r}, its new name, "
                "was deployed: events published in between would reach neither; deploy both "
                f"lines first, and set retiring=True afterwards ({STEPS})"
            )
