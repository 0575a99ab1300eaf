"""The examples for other tools than the CDK, deployed into the embedded AWS."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import hcl2
import pytest
from samtranslator.yaml_helper import yaml_parse

from demo.quiescence import wait_until_empty
from emulator.embedded_aws import EmbeddedAws
from emulator.installed import ROOT
from once.ops.aws.clients import depth
from once.ops.errors import ExitCode
from tests.e2e.deployment import REST_SECONDS, once

EXAMPLES = ROOT / "examples"
BUCKET, SERVICE, NAME = "packages", "tickets", "tickets-tickets"
OUTPUT = re.compile(r"Tickets(?:Settings|PolicyArn|QueueArn|IsolationQueueArn)")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
AWS_CLI, SAM = (ROOT / ".venv-cli" / "bin" / name for name in ("aws", "sam"))
OSLS = ROOT / "node_modules" / ".bin" / "osls"


class World:
    """The embedded AWS, with the stacks of `once template`, which the AWS CLI has deployed."""

    def __init__(self, aws: EmbeddedAws, folder: Path) -> None:
        self.aws, self.folder = aws, folder
        self.cloudformation, self.sqs = aws.client("cloudformation"), aws.client("sqs")
        aws.client("s3").create_bucket(Bucket=BUCKET)
        self.outputs: dict[str, str] = {}
        for part in ("state", "service"):
            name = f"{SERVICE}-{part}"
            self.outputs |= self.deploy(name, f"once.out/{name}.template.json")

    def deploy(self, name: str, template: str) -> dict[str, str]:
        """Deploy a file as the page says; return the outputs."""
        packaged = f"once.out/{name}.packaged.yaml"
        self.run(
            *(AWS_CLI, "cloudformation", "package", "--template-file", template),
            *("--s3-bucket", BUCKET, "--output-template-file", packaged),
        )
        deployed = self.run(
            *(AWS_CLI, "cloudformation", "deploy", "--stack-name", name),
            *("--template-file", packaged, "--s3-bucket", BUCKET),
            *("--capabilities", "CAPABILITY_IAM", "--no-fail-on-empty-changeset"),
        )
        assert "Successfully created" in deployed
        [stack] = self.cloudformation.describe_stacks(StackName=name)["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}

    def run(self, *command: str | Path, cwd: str = "") -> str:
        """Run a tool in the folder of the examples; return what it prints."""
        environment = {**os.environ, **self.aws.environment()}
        environment["SAM_CLI_TELEMETRY"] = "0"
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.folder / cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def physical(self, stack: str, logical: str) -> str:
        found = self.cloudformation.describe_stack_resource(
            StackName=stack, LogicalResourceId=logical
        )
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def delete(self, name: str) -> None:
        self.cloudformation.delete_stack(StackName=name)
        self.cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1}
        )

    def book_twice(self, queue: str, dead_letters: str, seats: str) -> dict[str, Any]:
        """Send a booking twice and one that is refused; see one change; return the dead letter."""
        booking, seat = uuid4().hex, uuid4().hex
        for body in (*[{"booking": booking, "seat": seat}] * 2, {"booking": "other", "seat": ""}):
            self.sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(body))
        wait_until_empty(self.sqs, [queue], timeout=REST_SECONDS)
        item = self.aws.client("dynamodb").get_item(TableName=seats, Key={"seat": {"S": seat}})
        assert item["Item"]["bookings"] == {"N": "1"}
        assert depth(self.sqs, dead_letters).total == 1
        received = self.sqs.receive_message(
            QueueUrl=dead_letters, MessageAttributeNames=["All"], VisibilityTimeout=0
        )
        dead_letter: dict[str, Any] = received["Messages"][0]["MessageAttributes"]
        return dead_letter


@pytest.fixture(scope="module")
def world(aws: EmbeddedAws, tmp_path_factory: pytest.TempPathFactory) -> World:
    here = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES, here, dirs_exist_ok=True)
    local = ("-c", f"python_runtime={PYTHON}")  # the endpoint tells that it is local
    told = ("--registry", str(here / "registry.py"), "--out", str(here / "once.out"), *local)
    templates = json.loads(once(aws, "template", "--service", SERVICE, *told, "--json"))
    assert [Path(each).is_file() for each in templates["written"]] == [True, True]
    packages = json.loads(once(aws, "package", *told, "--json"))["written"]
    assert {*map(Path, packages)} == {*(here / "once.out" / "packages").iterdir()}
    for path in ("cloudformation/template.yaml", "serverless/serverless.yml", "sam/template.yaml"):
        text = (here / path).read_text()
        (here / path).write_text(text.replace("python3.12", f"python{PYTHON}"))
    return World(aws, here)


def read(path: str) -> dict[str, Any]:
    template: dict[str, Any] = yaml_parse((EXAMPLES / path).read_text())
    return template


@contextmanager
def sam(world: World) -> Iterator[None]:
    """Deploy the example with SAM's command line, as the page says."""
    page = (ROOT / "docs" / "without-the-cdk.md").read_text()
    [line] = re.findall(r"^sam (deploy --stack-name tickets-sam .+)$", page, re.MULTILINE)
    assert "Successfully created" in world.run(SAM, *line.split())
    yield
    world.delete("tickets-sam")


@contextmanager
def serverless(world: World) -> Iterator[None]:
    """Deploy the example of the Serverless Framework with osls, its maintained fork."""
    assert "Service deployed" in world.run(OSLS, "deploy", cwd="serverless")
    yield
    world.run(OSLS, "remove", cwd="serverless")


Tool = Callable[[World], AbstractContextManager[None]]


def assert_booked_once(world: World) -> None:
    """Send a booking twice; see one change, and what the commands show of a refused one."""
    dead_letters, seats = world.outputs["DeadLettersTickets"], world.outputs["TableSeats"]
    dead_letter = world.book_twice(world.outputs["QueueTickets"], dead_letters, seats)
    assert dead_letter["once-reason"]["StringValue"] == "permanent"
    told = ("--service", SERVICE, "--json")
    listed = json.loads(once(world.aws, "dlq", "list", *told))
    assert [each["reason"] for each in listed["letters"]] == ["permanent"]
    traced = json.loads(once(world.aws, "trace", "other", "--no-logs", *told))
    assert "permanent" in str(traced["moments"])
    status = json.loads(once(world.aws, "status", *told, code=ExitCode.STUCK))
    assert (status["queues"][0]["consumer"], status["stuck"]) == ("tickets", True)
    world.sqs.purge_queue(QueueUrl=dead_letters)


@pytest.mark.parametrize("tool", [sam, serverless])
def test_a_message_that_comes_twice_changes_one_item(world: World, tool: Tool) -> None:
    with tool(world):
        assert_booked_once(world)


def test_cloudformation_deploys_it_and_check_names_what_differs_from_the_line(
    world: World,
) -> None:
    def faults(code: int = 1) -> list[str]:
        told = once(world.aws, "template", "--check", "--service", SERVICE, code=code)
        return told.splitlines()

    [missing] = faults()
    assert missing.startswith("tickets-tickets does not exist")
    world.deploy("tickets-plain", "cloudformation/template.yaml")
    assert_booked_once(world)
    functions, url = world.aws.client("lambda"), world.outputs["QueueTickets"]
    timeout, concurrency = faults()  # the example has those of AWS
    assert timeout == f"{NAME}: Timeout is 30; set it to 5"
    assert concurrency.endswith("set it to {'MaximumConcurrency': 3}")
    mappings = [
        functions.list_event_source_mappings(EventSourceArn=world.outputs[f"Tickets{queue}Arn"])
        for queue in ("Queue", "IsolationQueue")
    ]
    main, isolation = (each["EventSourceMappings"][0]["UUID"] for each in mappings)
    functions.update_function_configuration(FunctionName=NAME, Timeout=5)
    functions.update_event_source_mapping(UUID=main, ScalingConfig={"MaximumConcurrency": 3})
    assert faults(0) == ["every function fits its line"]
    functions.update_function_configuration(FunctionName=NAME, Environment={"Variables": {}})
    functions.put_function_concurrency(FunctionName=NAME, ReservedConcurrentExecutions=7)
    functions.update_event_source_mapping(UUID=main, FunctionResponseTypes=[])
    functions.delete_event_source_mapping(UUID=isolation)
    world.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "29"})
    role = world.physical("tickets-plain", "Role")
    policy = world.outputs["TicketsPolicyArn"]
    world.aws.client("iam").detach_role_policy(RoleName=role, PolicyArn=policy)
    told = (
        *("ONCE_SETTINGS is None", "ReservedConcurrentExecutions is 7", f"attach {policy}"),
        *("FunctionResponseTypes is []", f"VisibilityTimeout of {url}", "0 event source mappings"),
    )
    for fault, part in zip(faults(), told, strict=True):
        assert part in fault
    world.delete("tickets-plain")


def test_the_library_alone_needs_a_table_a_queue_a_role_and_a_function(world: World) -> None:
    world.deploy("tickets-alone", "cloudformation/alone.yaml")
    parts = [world.physical("tickets-alone", each) for each in ("Queue", "Letters", "Seats")]
    dead_letter = world.book_twice(*parts)
    assert dead_letter["once-reason"]["StringValue"] == "permanent"


Function = tuple[tuple[Any, ...], list[tuple[str, int, int]]]
"""Name, handler, memory and timeout; output, batch size and concurrency of each mapping."""


def of_sam() -> Function:
    own = read("sam/template.yaml")["Resources"]["Tickets"]["Properties"]
    mappings = []
    for event in own["Events"].values():
        each = event["Properties"]
        [output], most = OUTPUT.findall(str(each["Queue"])), each["ScalingConfig"]
        mappings.append((output, each["BatchSize"], most["MaximumConcurrency"]))
    return (own["FunctionName"], own["Handler"], own["MemorySize"], own["Timeout"]), mappings


def of_terraform() -> Function:
    parsed = hcl2.loads((EXAMPLES / "terraform" / "main.tf").read_text())["resource"]
    blocks = [(kind, named) for each in parsed for kind, named in each.items()]
    [own] = [b for kind, named in blocks for b in named.values() if "lambda_function" in kind]
    events = [b for kind, named in blocks for b in named.values() if "source_mapping" in kind]
    assert {str(each["function_response_types"]) for each in events} == {
        """['"ReportBatchItemFailures"']"""
    }
    name, handler = (own[each].strip('"') for each in ("function_name", "handler"))
    return (name, handler, own["memory_size"], own["timeout"]), [
        (
            OUTPUT.findall(each["event_source_arn"])[0],
            each["batch_size"],
            each["scaling_config"][0]["maximum_concurrency"],
        )
        for each in events
    ]


def test_an_example_that_is_not_deployed_makes_the_function_of_one_that_is(world: World) -> None:
    assert of_terraform() == of_sam()
    used = {*OUTPUT.findall((EXAMPLES / "terraform" / "main.tf").read_text())}
    assert used == {key for key in world.outputs if OUTPUT.fullmatch(key)}
