"""`status`: one table of what the queues hold, or the same as JSON."""

import json
import time
from typing import Any

import pytest

from once.ops.aws.queue_depth import oldest_message_seconds
from tests.ops.support import OK, Cloud, answer_with, refusal, run


@pytest.fixture
def busy(cloud: Cloud) -> Cloud:
    """Orders: two visible, one in flight, one delayed, one isolated; dead letters: three of
    inventory's, two of the relay's; four unrouted events, and one not yet looked at.
    """
    queue = cloud.queue("orders")
    for _ in range(3):
        cloud.sqs.send_message(QueueUrl=queue, MessageBody="x")
    cloud.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1)
    cloud.sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=600)
    waiting = {"IsolationOrders": 1, "DeadLettersInventory": 3, "RelayDeadLetters": 2}
    waiting |= {"UnroutedQueue": 4, "SweepQueue": 1}
    for name, number in waiting.items():
        for _ in range(number):
            cloud.sqs.send_message(QueueUrl=cloud.outputs["once-service"][name], MessageBody="x")
    return cloud


def ages(**seconds: list[float]) -> Any:
    """What CloudWatch answers: the newest value first, by queue name."""

    def answer(params: Any) -> Any:
        return OK, {
            "MetricDataResults": [
                {"Id": query["Id"], "Values": seconds.get(_queue(query), [])}
                for query in json.loads(params["body"])["MetricDataQueries"]
            ]
        }

    return answer


def _queue(query: Any) -> str:
    [dimension] = query["MetricStat"]["Metric"]["Dimensions"]
    return str(dimension["Value"]).removeprefix("once-")


def rows(output: str) -> dict[str, list[str]]:
    lines = [line for line in output.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    return {name: rest for name, *rest in cells}


def test_table_shows_depths_and_dead_letters(busy: Cloud) -> None:
    result = run("status")
    assert result.exit_code == 0
    assert rows(result.stdout) == {
        "inventory": ["0", "0", "0", "–", "–", "3"],
        "orders": ["2", "1", "1", "–", "1", "0"],
        "outbox_relay": ["–", "–", "–", "–", "–", "2"],
        "unrouted": ["1", "0", "0", "–", "–", "4"],
    }
    assert "\x1b" not in result.stdout


def test_json_says_the_same(busy: Cloud) -> None:
    answer_with("cloudwatch.GetMetricData", ages(orders=[61.0]))
    inventory, orders, relay, unrouted = json.loads(run("status", "--json").stdout)
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


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_061, "25 h 1 min")],
)
def test_age_is_the_newest_that_cloudwatch_knows(cloud: Cloud, seconds: int, shown: str) -> None:
    answer_with("cloudwatch.GetMetricData", ages(orders=[float(seconds), 7.0]))
    assert rows(run("status").stdout)["orders"][3] == shown


def test_age_is_never_invented_where_cloudwatch_refuses(cloud: Cloud) -> None:
    answer_with("cloudwatch.GetMetricData", lambda params: refusal("AccessDenied", "no"))
    result = run("status")
    assert result.exit_code == 0
    assert rows(result.stdout)["orders"][3] == "–"


def test_cloudwatch_is_asked_for_the_queue_by_name() -> None:
    asked: list[Any] = []

    class CloudWatch:
        def get_metric_data(self, **query: Any) -> Any:
            asked.append(query)
            return {"MetricDataResults": []}

    assert oldest_message_seconds(CloudWatch(), ["https://sqs.example/1/once-orders"]) == [None]
    [query] = asked[0]["MetricDataQueries"]
    assert query["MetricStat"]["Metric"] == {
        "Namespace": "AWS/SQS",
        "MetricName": "ApproximateAgeOfOldestMessage",
        "Dimensions": [{"Name": "QueueName", "Value": "once-orders"}],
    }
    assert asked[0]["ScanBy"] == "TimestampDescending"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_watch_looks_again_until_it_is_interrupted(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    waits = iter([None, None])

    def sleep(seconds: float) -> None:
        if next(waits, KeyboardInterrupt) is KeyboardInterrupt:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    result = run("status", "--watch", *form)
    assert result.exit_code == 0
    assert result.stdout.count("inventory") == 3
