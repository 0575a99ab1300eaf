"""`status`: a table of queue depths, or the same as JSON."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from once.names import RELAY, UNROUTED, Limits, StackOutput
from once.ops.aws.function_logs import start_errors
from once.ops.errors import ExitCode
from tests.ops.cloud import Cloud
from tests.ops.support import OK, answer_once, answer_with, refuse, rows, run, stderr_of, stdout_of

TIMES = "Init Duration: 402.23 ms\tPhase: init"
FAILED_START = (
    "[ERROR] RegistrationError: the registration is not valid:\n  - the table 'tickts'\n"
    "Traceback (most recent call last):\n  File ...",
    f"INIT_REPORT {TIMES}\tStatus: error\tError Type: RegistrationError",
)


@pytest.fixture
def busy(cloud: Cloud) -> Cloud:
    """Orders: two visible, one in flight, one delayed, one isolated; dead letters: three of
    inventory, two of the relay; four unrouted events, and one in the sweep queue.
    """
    queue = cloud.queue("orders")
    for _ in range(3):
        cloud.sqs.send_message(QueueUrl=queue, MessageBody="x")
    cloud.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)
    cloud.sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=600)
    for key in (f"{StackOutput.ISOLATION_QUEUE}Orders", StackOutput.SWEEP_QUEUE):
        cloud.sqs.send_message(QueueUrl=cloud.service[key], MessageBody="x")
    for owner in ["inventory"] * 3 + [RELAY] * 2 + [UNROUTED] * 4:
        cloud.bury(owner)
    return cloud


def answer_ages(**seconds: list[float]) -> None:
    """Let CloudWatch answer with these values, the newest first, by queue."""

    def values(query: Any) -> list[float]:
        [dimension] = query["MetricStat"]["Metric"]["Dimensions"]
        return seconds.get(dimension["Value"].removeprefix("once-"), [])

    def answer(params: Any) -> Any:
        queries = json.loads(params["body"])["MetricDataQueries"]
        results = [{"Id": query["Id"], "Values": values(query)} for query in queries]
        return OK, {"MetricDataResults": results}

    answer_with("cloudwatch.GetMetricData", answer)


def test_json_has_the_same_values(busy: Cloud) -> None:
    answer_ages(orders=[61.0])
    result = run("status", "--json")
    assert result.exit_code == ExitCode.STUCK
    assert "unrouted: 4 unrouted events" in result.stderr
    found = json.loads(result.stdout)
    inventory, orders, relay, unrouted = found["queues"]
    assert (found["service"], found["stuck"]) == ("once", True)
    assert [row.pop("stuck") for row in found["queues"]] == [
        ["3 dead letters"],
        [],
        ["2 dead letters"],
        ["4 unrouted events"],
    ]
    assert [row.pop("start_error") for row in found["queues"]] == [None] * 4
    assert [row.pop("pause") for row in found["queues"]] == [None] * 4
    assert [row.pop("acknowledged") for row in found["queues"]] == [[]] * 4
    assert [row.pop("retention_seconds") for row in found["queues"]] == [
        345600,
        345600,
        None,
        345600,
    ]
    assert [row.pop("breaker") for row in found["queues"]] == [None] * 4
    assert [row.pop("retrying") for row in found["queues"]] == [0, 0, None, None]
    assert [row.pop("mappings") for row in found["queues"]] == [[]] * 4
    assert [row.pop("queue_faults") for row in found["queues"]] == [[]] * 4
    assert [row.pop("message_bytes") for row in found["queues"]] == [Limits.MESSAGE_BYTES] * 4
    idle = {"visible": 0, "in_flight": 0, "delayed": 0, "oldest_seconds": None, "isolated": None}
    assert inventory == {"consumer": "inventory", **idle, "dead_letters": 3}
    assert orders == {
        "consumer": "orders",
        "visible": 2,
        "in_flight": 1,
        "delayed": 1,
        "oldest_seconds": 61,
        "isolated": 1,
        "dead_letters": 0,
    }
    assert relay == {"consumer": "outbox_relay", **dict.fromkeys(idle), "dead_letters": 2}
    assert unrouted == {"consumer": "unrouted", **idle, "visible": 1, "dead_letters": 4}


AGES = {0: "0 s", 59: "59 s", 61: "1 min 1 s", 3600: "1 h 0 min", 90_061: "25 h 1 min"}


@pytest.mark.usefixtures("cloud")
def test_age_is_the_newest_value_of_cloudwatch_for_the_older_of_its_two_queues() -> None:
    newest = {"orders": [0.0, 7.0], "orders-isolation": [0.0]}
    answer_ages(**newest)
    for number, (seconds, shown) in enumerate(AGES.items()):
        newest["orders-isolation" if number % 2 else "orders"][0] = float(seconds)
        assert rows(run("status").stdout)[1][4] == shown


@pytest.mark.usefixtures("cloud")
def test_a_queue_with_an_old_message_is_stuck() -> None:
    newest = {"orders": [0.0]}
    answer_ages(**newest)
    for options, limit in (((), 3600), (("--max-age", "2h"), 7200)):
        for seconds, code in ((limit - 1, 0), (limit, ExitCode.STUCK)):
            newest["orders"][0] = float(seconds)
            result = run("status", "--json", *options)
            assert result.exit_code == code
            assert json.loads(result.stdout)["stuck"] is bool(code)
            assert ("orders: a message has waited for" in result.stderr) is bool(code)
    assert "'2026' is no age: give one such as" in stderr_of("status", "--max-age", "2026", code=2)


def test_a_function_that_cannot_start_is_stuck_while_messages_wait(cloud: Cloud) -> None:
    cloud.log("orders", *FAILED_START)
    assert "cannot start" not in stdout_of("status")
    cloud.sqs.send_message(QueueUrl=cloud.queue("orders"), MessageBody="x")
    assert (
        "orders: its function cannot start: RegistrationError: the registration is not valid: - "
        "the table 'tickts'"
    ) in stderr_of("status", code=ExitCode.STUCK)
    found = json.loads(run("status", "--json").stdout)
    assert found["queues"][1]["start_error"].startswith("RegistrationError: ")
    cloud.log("orders", '{"message": "batch"}')
    stdout_of("status")
    cloud.log("orders", *FAILED_START)
    assert "cannot start" in stderr_of("status", code=ExitCode.STUCK)
    for version, code in (("1", ExitCode.STUCK), ("2", 0)):  # another one was deployed
        answer = {"Version": version, "LastModified": datetime.now(UTC).isoformat()}
        answer_once("lambda.GetFunctionConfiguration", (OK, answer))
        assert run("status").exit_code == code


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([f"INIT_REPORT {TIMES}"], None),
        ([f"INIT_REPORT {TIMES}\tStatus: timeout"], "timeout"),
        (
            [f"INIT_REPORT {TIMES}\tStatus: error\tError Type: Runtime.ExitError"],
            "error, Error Type: Runtime.ExitError",
        ),
        (["[ERROR] ValueError: of a batch", "REPORT"], None),
    ],
)
def test_the_platforms_line_tells_whether_a_start_failed(
    cloud: Cloud, lines: list[str], error: str | None
) -> None:
    cloud.log("orders", *lines)
    found = start_errors(cloud.logs, ["once-orders", "once-without-a-log"])
    assert found == ({"once-orders": error} if error else {})


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(
    ("function", "state", "result", "stuck"),
    [
        ("outbox_relay:live", "Enabled", "PROBLEM: Lambda failed to read the stream", True),
        ("orders", "Disabling", None, True),
        ("unrouted:live", "Enabled", "No records processed", False),
        ("of_another_service", "Disabled", None, False),
    ],
)
def test_a_mapping_that_reads_nothing_is_stuck(
    function: str, state: str, result: str | None, *, stuck: bool
) -> None:
    name = function.partition(":")[0]
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:once-{function}"
    mapping = {"FunctionArn": arn, "EventSourceArn": "arn:it", "State": state, "UUID": "u"}
    pages = {
        "EventSourceMappings": [mapping | ({"LastProcessingResult": result} if result else {})]
    }
    answer_with("lambda.ListEventSourceMappings", lambda _: (OK, pages))
    found = run("status", "--json")
    assert found.exit_code == (ExitCode.STUCK if stuck else 0)
    assert (f"{name}: its event source mapping of arn:it" in found.stderr) is stuck
    shown = {row["consumer"]: row["mappings"] for row in json.loads(found.stdout)["queues"]}
    assert shown.get(name, [mapping_of(state, result)]) == [mapping_of(state, result)]


def mapping_of(state: str, result: str | None) -> dict[str, str | None]:
    return {"source": "arn:it", "state": state, "result": result, "uuid": "u"}


def test_a_queue_that_refuses_large_messages_is_named(cloud: Cloud) -> None:
    assert "MaximumMessageSize" not in stdout_of("status")
    for output in (f"{StackOutput.QUEUE}Orders", f"{StackOutput.DEAD_LETTERS}Inventory"):
        cloud.sqs.set_queue_attributes(
            QueueUrl=cloud.service[output], Attributes={"MaximumMessageSize": "262144"}
        )
    shown = " ".join(stdout_of("status").split())
    for name in ("orders", "inventory"):
        said = f"{name}: set MaximumMessageSize of its queues to 1048576 (is 262144)"
        assert said in shown
    queues = json.loads(run("status", "--json").stdout)["queues"]
    assert [row["message_bytes"] for row in queues[:2]] == [262144, 262144]


RULES = {
    "VisibilityTimeout": 180,
    "MessageRetentionPeriod": 345600,
    "maxReceiveCount": 5,
}


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("VisibilityTimeout", "180", None),
        ("VisibilityTimeout", "179", "raise VisibilityTimeout of its queue to 180 (is 179)"),
        ("MessageRetentionPeriod", "60", None),
        (
            "MessageRetentionPeriod",
            "345601",
            "lower MessageRetentionPeriod of its queue to 345600 (is 345601)",
        ),
        ("RedrivePolicy", 5, None),
        ("RedrivePolicy", 4, "raise maxReceiveCount of its queue to 5 (is 4)"),
    ],
)
def test_an_existing_queue_that_breaks_a_rule_is_named(
    cloud: Cloud, attribute: str, value: str | int, said: str | None
) -> None:
    url = cloud.service[f"{StackOutput.QUEUE}Orders"]
    if isinstance(value, int):
        letters = "arn:aws:sqs:us-east-1:123456789012:once-orders-dead-letters"
        value = json.dumps({"deadLetterTargetArn": letters, "maxReceiveCount": value})
    fitting = {"VisibilityTimeout": "180"}
    cloud.sqs.set_queue_attributes(QueueUrl=url, Attributes={**fitting, attribute: value})
    assert "of its queue to" not in stdout_of("status")
    cloud.service[f"{StackOutput.QUEUE_RULES}Orders"] = json.dumps(RULES)
    shown = " ".join(stdout_of("status").split())
    assert (f"orders: {said}" in shown) if said else ("of its queue to" not in shown)
    found = json.loads(run("status", "--json").stdout)["queues"]
    assert {row["consumer"] for row in found if row["queue_faults"]} == (
        {"orders"} if said else set()
    )


@pytest.mark.usefixtures("cloud")
def test_age_is_unknown_if_cloudwatch_refuses() -> None:
    refuse("cloudwatch.GetMetricData")
    refuse("lambda.ListEventSourceMappings")
    assert rows(stdout_of("status"))[1][4] == "–"
