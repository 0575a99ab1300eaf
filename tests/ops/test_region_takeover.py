"""`once region`: a takeover of one Region from another, its way back, and what they refuse."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from once.names import RELAY, UNROUTED
from once.ops.errors import ExitCode
from tests.ops.cloud import ACCOUNT, CONSUMERS, OPERATOR_LOG, REGION, Cloud
from tests.ops.support import OK, add_to_answer, answer_with, refusal, run, stderr_of, stdout_of
from tests.ops.test_main import has_documented_shape

OTHER = "eu-central-1"
TAKE_OVER = ("region", "fail-over", "--other", OTHER, "--yes")
BACK = ("region", "fail-back", "--other", OTHER, "--yes", "--wait", 0)
FUNCTION_ROLES = [f"once-service-OrdersRoleA1-{end}" for end in ("X7", "Y8")]
ALL = {*CONSUMERS, RELAY, UNROUTED}


@dataclass
class TwoRegions:
    """The deployment in both Regions, with global tables; the other one is the standby."""

    cloud: Cloud
    mappings: dict[str, dict[str, str]] = field(
        default_factory=lambda: {
            REGION: dict.fromkeys(ALL, "Enabled"),
            OTHER: dict.fromkeys(ALL, "Disabled"),
        }
    )
    gone: set[str] = field(default_factory=set)
    """Regions and services without an answer."""
    changes: list[tuple[str, str, bool]] = field(default_factory=list)
    """Region, owner and new state of the changed mappings, in their order."""
    role: str = FUNCTION_ROLES[0]
    before_change: Callable[[str], Any] = lambda region: None
    """Returns Lambda's answer to a change in a Region, or None to make it."""

    def __post_init__(self) -> None:
        self.iam = boto3.client("iam")
        for name in (*FUNCTION_ROLES, "else-Z9"):
            self.iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        sqs, dynamodb = (boto3.client(name, region_name=OTHER) for name in ("sqs", "dynamodb"))
        for value in self.cloud.service.values():
            if value.startswith("https://sqs"):
                sqs.create_queue(QueueName=value.rpartition("/")[2])
        for name in ("physical-dedup", "physical-stock"):
            dynamodb.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        boto3.client("logs", region_name=OTHER).create_log_group(logGroupName=OPERATOR_LOG)

    @property
    def fenced(self) -> dict[str, set[str]]:
        """The denied tables of each role, by the role's name."""
        found = {}
        for role in self.iam.list_roles()["Roles"]:
            name = role["RoleName"]
            policies = self.iam.list_role_policies(RoleName=name)["PolicyNames"]
            documents = [
                self.iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"]
                for each in policies
            ]
            found[name] = {each["Statement"][0]["Resource"] for each in documents}
        return found

    def send(self, consumer: str) -> None:
        self.cloud.sqs.send_message(QueueUrl=self.cloud.queue(consumer), MessageBody="x")

    def on(self, region: str) -> set[str]:
        """The owners of the enabled mappings."""
        return {owner for owner, state in self.mappings[region].items() if state == "Enabled"}

    def listed(self, params: Any) -> Any:
        region = params["context"]["client_region"]
        return OK, {
            "EventSourceMappings": [
                {
                    "UUID": owner.ljust(36, "-"),
                    "FunctionArn": f"arn:aws:lambda:{region}:{ACCOUNT}:function:once-{owner}:live",
                    "State": state,
                }
                for owner, state in self.mappings[region].items()
            ]
        }

    def function(self, _: Any) -> Any:
        return OK, {"Role": f"arn:aws:iam::{ACCOUNT}:role/{self.role}"}

    def change(self, params: Any) -> Any:
        region = params["context"]["client_region"]
        owner = params["url_path"].rpartition("/")[2].rstrip("-")
        if answer := self.before_change(region):
            return answer
        enabled = json.loads(params["body"])["Enabled"]
        self.mappings[region][owner] = "Enabled" if enabled else "Disabled"
        self.changes.append((region, owner, enabled))
        return OK, {}

    def unanswered(self, params: Any, model: Any) -> None:
        if {params["context"]["client_region"], model.service_model.service_name} & self.gone:
            raise EndpointConnectionError(endpoint_url=params["url"])


@pytest.fixture
def two(cloud: Cloud) -> TwoRegions:
    two = TwoRegions(cloud)
    answer_with("lambda.ListEventSourceMappings", two.listed)
    answer_with("lambda.UpdateEventSourceMapping", two.change)
    answer_with("lambda.GetFunctionConfiguration", two.function)
    regions = [{"RegionName": each} for each in (REGION, OTHER)]
    add_to_answer("dynamodb.DescribeTable", lambda it: it["Table"].update(Replicas=regions))
    assert boto3.DEFAULT_SESSION is not None
    boto3.DEFAULT_SESSION.events.register_first(
        "before-call", lambda params, model, **_: two.unanswered(params, model)
    )
    return two


def tables_of(region: str) -> set[str]:
    return {f"arn:aws:dynamodb:{region}:{ACCOUNT}:table/*"}


def test_a_drained_region_is_stopped_and_fenced_before_the_other_one_begins(
    two: TwoRegions,
) -> None:
    lag = {"Id": "lag", "Values": [1500.0]}
    answer_with("cloudwatch.GetMetricData", lambda _: (OK, {"MetricDataResults": [lag]}))
    said = stdout_of(*TAKE_OVER, "--drained", "--why", "drill")
    assert "wait 15 s for replication to eu-central-1" in said
    assert (two.on(REGION), two.on(OTHER)) == (set(), ALL)
    assert [region for region, _, _ in two.changes] == [REGION] * 4 + [OTHER] * 4
    assert two.changes[-1] == (OTHER, RELAY, True)
    assert two.fenced == dict.fromkeys(FUNCTION_ROLES, tables_of(REGION)) | {"else-Z9": set()}
    logs = boto3.client("logs", region_name=OTHER)
    entries = logs.filter_log_events(logGroupName=OPERATOR_LOG)["events"]
    [intent, outcome] = [json.loads(each["message"]) for each in entries]
    assert intent["arguments"] == {"from": REGION, "to": OTHER, "drained": True}
    assert (intent["why"], outcome["outcome"]) == ("drill", "done")
    stdout_of(*BACK)
    assert (two.on(REGION), two.on(OTHER)) == (ALL, set())
    assert two.fenced[FUNCTION_ROLES[0]] == tables_of(OTHER)
    assert two.changes[-1] == (REGION, RELAY, True)


def test_the_deployment_of_the_other_region_may_have_another_name(two: TwoRegions) -> None:
    outputs = two.cloud.outputs
    outputs |= {f"b-{name}": outputs[f"once-{name}"] for name in ("state", "service")}
    two.role = "b-service-OrdersRoleA1-Z9"
    two.iam.create_role(RoleName=two.role, AssumeRolePolicyDocument="{}")
    stdout_of(*TAKE_OVER, "--pulled", "--other-service", "b")
    assert {name for name, of in two.fenced.items() if of} == {*FUNCTION_ROLES, two.role}


def test_a_region_that_is_gone_is_fenced_and_stopped_when_it_is_back(two: TwoRegions) -> None:
    two.gone = {REGION, "iam"}
    said = stderr_of(*TAKE_OVER, "--pulled")
    assert "us-east-1 does not answer" in said
    assert "IAM does not answer" in said
    assert two.on(OTHER) == ALL
    two.gone = {REGION}
    assert "IAM" not in stderr_of(*TAKE_OVER, "--pulled")
    assert two.fenced[FUNCTION_ROLES[0]] == tables_of(REGION)
    two.gone, two.changes = set(), []
    found = json.loads(stdout_of(*TAKE_OVER, "--pulled", "--json"))
    assert [step["state"] for step in found["steps"]] == ["done", *["done already"] * 3]
    assert (two.on(REGION), {region for region, _, _ in two.changes}) == (set(), {REGION})
    assert "do" not in stdout_of(*TAKE_OVER, "--pulled").split()  # nothing is left to do


def test_a_command_that_failed_half_way_is_repeated(two: TwoRegions) -> None:
    failing = [refusal("ResourceInUseException", "is being updated")]

    two.before_change = lambda region: failing.pop() if failing and region == OTHER else None
    assert "is being updated" in stderr_of(*TAKE_OVER, "--drained", "--wait", 0)
    assert (two.on(REGION), two.on(OTHER)) == (set(), set())
    found = json.loads(stdout_of(*TAKE_OVER, "--drained", "--wait", 0, "--json"))
    states = [step["state"] for step in found["steps"]]
    assert states == ["done already"] * 2 + ["done"] * 3
    assert two.on(OTHER) == ALL


@pytest.mark.parametrize(
    ("region", "said"),
    [(REGION, "us-east-1 does not answer"), (OTHER, "eu-central-1 does not answer")],
)
def test_a_drained_takeover_needs_both_regions(two: TwoRegions, region: str, said: str) -> None:
    two.gone = {region}
    assert said in stderr_of(*TAKE_OVER, "--drained", "--wait", 0)
    assert two.changes == []


def test_messages_tables_without_replicas_and_an_unknown_lag_stop_a_takeover(
    two: TwoRegions,
) -> None:
    assert "give --wait SECONDS" in stderr_of(*TAKE_OVER, "--drained")
    two.send("orders")
    assert "(orders 1)" in stderr_of(*TAKE_OVER, "--drained", "--wait", 0)
    add_to_answer("dynamodb.DescribeTable", lambda it: it["Table"].update(Replicas=[]))
    for kind in ("--drained", "--pulled"):
        assert "has no replica in us-east-1" in stderr_of(*TAKE_OVER, kind)
    assert two.changes == []
    assert not any(two.fenced.values())


def test_messages_that_arrive_after_the_plan_keep_the_region_in_charge(
    two: TwoRegions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("once.ops.region_takeover.WAIT_SECONDS", -1)
    two.before_change = lambda region: two.send("orders")
    assert "is not drained" in stderr_of(*TAKE_OVER, "--drained", "--wait", 0)
    assert (two.on(REGION), two.on(OTHER)) == (ALL, set())


def test_strong_consistency_needs_no_fence_and_no_wait(two: TwoRegions) -> None:
    strong = {"MultiRegionConsistency": "STRONG"}
    add_to_answer("dynamodb.DescribeTable", lambda it: it["Table"].update(strong))
    assert "fence" not in stdout_of(*TAKE_OVER, "--drained")
    assert not any(two.fenced.values())
    assert two.on(OTHER) == ALL


def test_status_shows_both_regions_and_two_running_relays(two: TwoRegions) -> None:
    status = ("region", "status", "--other", OTHER)
    said = stdout_of(*status)
    assert "us-east-1: 0 of 2 roles are fenced" in said
    two.mappings[OTHER][RELAY] = "Enabled"
    assert "relays of us-east-1 and eu-central-1 run" in stderr_of(*status, code=ExitCode.STUCK)
    two.gone = {REGION}
    result = run(*status, "--json")
    [here, other] = json.loads(result.stdout)["regions"]
    assert (result.exit_code, here["answers"], other["answers"]) == (ExitCode.STUCK, False, True)
    assert here["fence"]["open"] == FUNCTION_ROLES
    assert [one["others"] for one in other["tables"]] == [[REGION, OTHER]] * 2


@pytest.mark.parametrize(
    "command",
    [("status", "--other", OTHER), (*TAKE_OVER[1:], "--drained", "--wait", 0), BACK[1:]],
)
def test_json_has_the_documented_shape(two: TwoRegions, command: tuple[object, ...]) -> None:
    result = run("region", *command, "--json")
    assert has_documented_shape(f"region {command[0]}", result.stdout), result.output
