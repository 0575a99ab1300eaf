"""Settings over 4 KB change under traffic, while the version with the earlier ones still serves.

The embedded AWS has no CodeDeploy and ignores the weights of an alias. A wait condition before the
alias takes the place of a rollout: the deployment has changed all that it changes before the first
step, and the earlier version gets the whole traffic. It has no SnapStart either.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event

import aws_cdk as cdk
from aws_cdk import CfnCreationPolicy, CfnResourceSignal, CfnWaitCondition

from demo.background import background
from demo.quiescence import wait_until, wait_until_empty
from emulator.cdk_cli import bootstrap, deploy
from emulator.embedded_aws import EmbeddedAws
from once.cdk import ConsumerProps, TableProps, assemble
from once.ops.aws.deployment import Deployment
from once.settings import SETTINGS
from once.testing import cloud_event
from tests.e2e.deployment import REST_SECONDS, synthesized
from tests.stacks.booking_office import lines_in, registry_in

SERVICE = "stored"
FUNCTION = f"{SERVICE}-ticks"
STACK = f"{SERVICE}-service"
TYPES = tuple(f"tick.with.a.name.of.some.length.{number:03}" for number in range(110))
TICKS = ConsumerProps("ticks", external=TYPES, tables=(TableProps("ticks", "id"),), aws_services=())
HANDLER = """from msgspec import Struct

from once import Consumer

consumer = Consumer("ticks")
TICKS = consumer.table("ticks")


class Tick(Struct):
    id: str

{decorators}
def count(event, tx):
    tx.update(TICKS, {{"id": event.id}}, add={{"amount": 1}}, set={{"code": {code!r}}})


lambda_handler = consumer.lambda_handler
"""
PERIOD_SECONDS = 0.1


class Stored:
    """The deployed consumer, the events that were sent to it, and those that it has counted."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.aws, self._folder = aws, folder
        self.sent: list[str] = []
        bootstrap(aws)
        self.deploy("old", self.synthesize("old", TYPES))

    def synthesize(self, code: str, types: Sequence[str], *, pauses: bool = False) -> Path:
        functions = self._folder / code / "functions"
        lines = lines_in(functions, [replace(TICKS, external=tuple(types))])
        decorators = "".join(f"\n@consumer.handles({each!r}, Tick)" for each in types)
        handler = HANDLER.format(decorators=decorators, code=code)
        (functions / "ticks" / "handler.py").write_text(handler)
        registry = registry_in(self._folder / code, lines)

        def build(app: cdk.App) -> None:
            [service] = assemble(app, registry)
            if pauses:
                pause = CfnWaitCondition(service, "Pause")
                signal = CfnResourceSignal(count=1, timeout="PT5M")
                pause.cfn_options.creation_policy = CfnCreationPolicy(resource_signal=signal)
                [consumer] = service.consumers
                pause.node.add_dependency(consumer.alias.version)
                consumer.alias.node.add_dependency(pause)

        return synthesized(self.aws, f"stored-{code}", build, service=SERVICE)

    def deploy(self, code: str, assembly: Path) -> None:
        stacks = deploy(self.aws, app=assembly, outputs=self._folder / f"{code}.json")
        values = {name: value for stack in stacks.values() for name, value in stack.items()}
        self.parts = Deployment.of(SERVICE, values)

    def is_paused(self) -> bool:
        stack = self.aws.client("cloudformation").describe_stack_events(StackName=STACK)
        return any(each["LogicalResourceId"] == "Pause" for each in stack["StackEvents"])

    def go_on(self) -> None:
        self.aws.client("cloudformation").signal_resource(
            StackName=STACK, LogicalResourceId="Pause", UniqueId="1", Status="SUCCESS"
        )

    def send(self, over: Event) -> None:
        sqs, url = self.aws.client("sqs"), self.parts.consumer("ticks").queue_url
        for number in count():
            if over.wait(PERIOD_SECONDS):
                return
            name = f"n-{number}"
            event = cloud_event(TYPES[0], {"id": name}, event_id=name)
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))
            self.sent.append(name)

    def counted(self) -> dict[str, tuple[int, str]]:
        """Return how often each event has counted, and which code did it."""
        pages = self.aws.client("dynamodb").get_paginator("scan")
        found = pages.paginate(TableName=self.parts.table("ticks"), ConsistentRead=True)
        items = (item for page in found for item in page["Items"])
        return {each["id"]["S"]: (int(each["amount"]["N"]), each["code"]["S"]) for each in items}

    def code_of_the_next(self) -> str:
        """Wait for an event that is sent from now on, and return the code that counts it."""
        number = len(self.sent) + 1
        name = f"n-{number}"
        wait_until(f"{name} counts", lambda: name in self.counted(), timeout=REST_SECONDS)
        return self.counted()[name][1]

    def start_cold(self) -> None:
        """End the processes of the function, so that its next invocation is a cold start."""
        for process in self.aws.function_processes(FUNCTION):
            process.kill()

    def settings(self) -> str:
        """Return the name of the parameter that the version behind the alias reads."""
        found = self.aws.client("lambda").get_function_configuration(
            FunctionName=f"{FUNCTION}:live"
        )
        return str(found["Environment"]["Variables"][SETTINGS])

    def log(self) -> list[str]:
        pages = self.aws.client("logs").get_paginator("filter_log_events")
        found = pages.paginate(logGroupName=f"/aws/lambda/{FUNCTION}")
        return [str(event["message"]) for page in found for event in page["events"]]


def test_changed_settings_in_a_parameter_lose_and_delay_nothing(
    aws: EmbeddedAws, tmp_path: Path
) -> None:
    service = Stored(aws, tmp_path)
    earlier = service.settings()
    assert earlier.startswith(f"/{FUNCTION}/settings-")
    changed = service.synthesize("new", (*TYPES, "tick.last"), pauses=True)
    with background("events", service.send), ThreadPoolExecutor(1) as pool:
        assert service.code_of_the_next() == "old"
        deployment = pool.submit(service.deploy, "new", changed)
        wait_until(
            "the deployment pauses",
            lambda: service.is_paused() or deployment.done(),
            timeout=REST_SECONDS,
        )
        try:
            service.start_cold()
            assert service.code_of_the_next() == "old"
            assert service.settings() == earlier
        finally:
            service.go_on()
        deployment.result()
        assert service.code_of_the_next() == "new"
    assert service.settings() != earlier
    consumer = service.parts.consumer("ticks")
    urls = [*consumer.queue_urls, consumer.dead_letter_url]
    wait_until_empty(aws.client("sqs"), urls, timeout=REST_SECONDS)
    counted = service.counted()
    assert {*service.sent} == counted.keys()
    assert {amount for amount, _ in counted.values()} == {1}
    failures = [line for line in service.log() if "ERROR" in line or "will be retried" in line]
    assert failures == []
