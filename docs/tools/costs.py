"""Costs of the example shop, counted in its templates: the tables of docs/costs.md.

Prices are list prices for us-east-1 in USD, without free tiers. docs/costs.md says which of them
were read on 2026-11-22.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.tools.marked_block import replaced
from once.cdk.resting_cost import CUSTOM_METRIC, SQS_REQUEST, Line, Template, at_rest, properties_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "costs.md"

METRICS_OF_A_MAPPING = 3
"""Messages that were handed over, failed, and deleted or dropped by the filter.

The polls are in the bill at rest, because they are counted without messages too.
"""
SNS_PUBLISH = 0.50e-6
LAMBDA_REQUEST = 0.20e-6
LAMBDA_GB_SECOND = 0.0000133334
WRITE_UNIT = 0.625e-6
TRANSFER_GB = 0.02
"""From one Region to another one."""
ITEM_BYTES = 1000
STORED_GB_MONTH = 0.25 + 0.20
"""A table's storage, and its point-in-time recovery."""
LOG_GB = 0.50
TRACE = 5.00e-6

MEMORY_GB = 0.5
RECORD_BYTES = 350
ITEM_RECORD_BYTES = 220
WINDOW_MONTHS = 45 / 30
INVOCATION_LOG_BYTES = 1500
TRACED_SHARE = 0.05
MILLION = 1_000_000


def of_one_consumer(service: Template, name: str = "orders") -> Template:
    """Return the part of the service's template that one consumer alone has."""
    own = (name, "ThrottlesAlarm", "Dashboard")
    resources = service["Resources"].items()
    return {"Resources": {key: each for key, each in resources if key.startswith(own)}}


def custom_metrics(*templates: Template) -> int:
    """Return how many custom metrics alarms and dashboard refer to, by name and function."""
    text = json.dumps(templates).replace("\\", "")
    shown = set(re.findall(r'"Once","(\w+)","service","([\w-]+)"', text))
    # The graphs of one consumer name a pattern, in whose place each consumer's name is put.
    for pattern, values in re.findall(r'"pattern":"([\w-]+)".*?"values":(\[.*?\])', text):
        names = re.findall(r'"value":"(\w+)"', values)
        shown = {(m, each.replace(pattern, name)) for m, each in shown for name in names}
    return len(shown | {_named(metric) for metric in _metrics(templates)})


def mapping_metrics(*templates: Template) -> int:
    """Return how many metrics mappings have with traffic, charged like custom metrics."""
    mappings = properties_of("AWS::Lambda::EventSourceMapping", *templates)
    return METRICS_OF_A_MAPPING * len([each for each in mappings if "MetricsConfig" in each])


def for_a_million(*, batch: int, effect_seconds: float = 0.0) -> list[Line]:
    """Return the bill of a million messages at one consumer.

    Each writes one item under 1 KB besides its dedup record. Times are those of the model in
    docs/performance.md, without the function's own CPU.

    Args:
        batch: messages in an invocation and in a commit.
        effect_seconds: time of a call to the outside world; 0 for a consumer that makes none.
    """
    invocations = MILLION / batch
    seconds = _transaction_seconds(2 * batch)
    units = 4
    if effect_seconds:
        seconds += _transaction_seconds(batch) + effect_seconds
        units += 2
    stored = MILLION * RECORD_BYTES / 1e9 * WINDOW_MONTHS
    return [
        Line("DynamoDB write units", MILLION * units, WRITE_UNIT),
        Line("dedup records, GB-months", stored, STORED_GB_MONTH),
        Line("SQS requests", MILLION + 2 * invocations, SQS_REQUEST),
        Line("Lambda requests", invocations, LAMBDA_REQUEST),
        Line("Lambda GB-seconds", invocations * seconds * MEMORY_GB, LAMBDA_GB_SECOND),
        Line("logs and metric lines, GB", invocations * INVOCATION_LOG_BYTES / 1e9, LOG_GB),
        Line("X-Ray traces", invocations * TRACED_SHARE, TRACE),
    ]


def for_a_replica(units: int, record_bytes: int = RECORD_BYTES) -> list[Line]:
    """Return what one more Region adds to the bill of a million messages.

    A replicated write costs what the write costs. `units` are its write units; whether those of a
    transaction count twice in the other Region as well is not documented, and assumed here.
    """
    sent = MILLION * (ITEM_BYTES + record_bytes) / 1e9
    stored = MILLION * record_bytes / 1e9 * WINDOW_MONTHS
    return [
        Line("replicated write units", MILLION * units, WRITE_UNIT),
        Line("dedup records, GB-months", stored, STORED_GB_MONTH),
        Line("transfer, GB", sent, TRANSFER_GB),
    ]


def _transaction_seconds(items: int) -> float:
    """Return the time of a transaction in the model: published medians of 2020."""
    return 0.0236 + 0.00034 * items


def _metrics(templates: tuple[Template, ...]) -> Iterator[Mapping[str, Any]]:
    for alarm in properties_of("AWS::CloudWatch::Alarm", *templates):
        inside = (m["MetricStat"]["Metric"] for m in alarm.get("Metrics", []) if "MetricStat" in m)
        yield from (metric for metric in (alarm, *inside) if metric.get("Namespace") == "Once")


def _named(metric: Mapping[str, Any]) -> tuple[str, str]:
    (service,) = (d["Value"] for d in metric["Dimensions"] if d["Name"] == "service")
    return metric["MetricName"], service


def bill(lines: list[Line]) -> str:
    """Return a bill as a Markdown table."""
    rows = [f"| {line.name} | {_number(line.quantity)} | {line.cost:.2f} |" for line in lines]
    total = sum(line.cost for line in lines)
    return "\n".join(["| | count | USD |", "|---|---:|---:|", *rows, f"| | | **{total:.2f}** |"])


def comparison(bills: Mapping[str, list[Line]]) -> str:
    """Return bills with the same lines side by side, as a Markdown table."""
    heads = ["| USD | " + " | ".join(bills) + " |", "|---|" + "---:|" * len(bills)]
    rows = [
        f"| {lines[0].name.partition(',')[0]} | "
        + " | ".join(f"{x.cost:.2f}" for x in lines)
        + " |"
        for lines in zip(*bills.values(), strict=True)
    ]
    totals = (f"**{sum(line.cost for line in lines):.2f}**" for lines in bills.values())
    return "\n".join([*heads, *rows, "| | " + " | ".join(totals) + " |"])


def _number(count: float) -> str:
    return f"{count:,.0f}" if count >= 1 else f"{count:.2f}"


def page(text: str, *templates: Template) -> str:
    """Return the text of docs/costs.md with its tables made anew."""
    ours, theirs = custom_metrics(*templates), mapping_metrics(*templates)
    most = (
        f"{ours} custom metrics at most, {ours * CUSTOM_METRIC:.2f} USD a month, and {theirs} of "
        f"the relay's mapping, {theirs * CUSTOM_METRIC:.2f} USD a month."
    )
    million = comparison(
        {
            "batches of 10": for_a_million(batch=10),
            "one by one": for_a_million(batch=1),
            "batches of 10, effects of 0.5 s": for_a_million(batch=10, effect_seconds=0.5),
            "one by one, an effect of 0.5 s": for_a_million(batch=1, effect_seconds=0.5),
        }
    )
    replica = comparison(
        {
            "records of their own": for_a_replica(4),
            "item dedup in groups": for_a_replica(2, ITEM_RECORD_BYTES),
            "item dedup alone": for_a_replica(1, ITEM_RECORD_BYTES),
        }
    )
    *_, service = templates
    one = [line for line in at_rest(of_one_consumer(service)) if line.quantity]
    text = replaced(text, "one consumer", bill(one))
    text = replaced(text, "at rest", bill(at_rest(*templates)))
    text = replaced(text, "custom metrics", most)
    text = replaced(text, "a million", million)
    return replaced(text, "a replica", replica)


def main(folder: str = "cdk.out") -> None:
    """Make the tables anew from the templates that `cdk synth` has written."""
    names = ("once-state", "once-service")
    templates = (json.loads((ROOT / folder / f"{n}.template.json").read_text()) for n in names)
    PAGE.write_text(page(PAGE.read_text(), *templates))


if __name__ == "__main__":
    main(*sys.argv[1:])
