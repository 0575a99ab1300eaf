"""The costs are counted in the templates, and pages and README show the same figures."""

import re

import pytest

from docs.tools.costs import PAGE, at_rest, custom_metrics, for_a_million, mapping_metrics, page
from stacks.consumers import CONSUMERS
from tests.architecture.imports import ROOT
from tests.stacks.cloud import SHOP, Cloud

of_the_shop = pytest.mark.skipif(
    {line.name for line in CONSUMERS} != set(SHOP),
    reason="the pages show the costs of the example's consumers, and the registry has others",
)
README = (ROOT / "README.md").read_text()


@of_the_shop
def test_the_tables_are_counted_in_the_templates(cloud: Cloud) -> None:
    text = PAGE.read_text()
    assert text == page(text, cloud.state, cloud.service), "the tables are old: run `make redraw`"


@of_the_shop
def test_the_readme_shows_the_same_costs(cloud: Cloud) -> None:
    rest = sum(line.cost for line in at_rest(cloud.state, cloud.service))
    million = sum(line.cost for line in for_a_million(batch=10))
    assert f"${rest:.0f} a month" in README
    assert f"${million:.2f} a million messages" in README


def test_an_alarm_on_an_expression_counts_each_of_its_metrics() -> None:
    plain = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"MetricName": "Age"}}
    metric = {"MetricStat": {"Metric": {"Namespace": "AWS/SQS"}}}
    share = {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {"Metrics": [{"Expression": "a / b"}, metric, metric]},
    }
    alarms, *others = at_rest({"Resources": {"plain": plain, "share": share}})
    assert (alarms.name, alarms.quantity) == ("metrics in 2 alarms", 3)
    assert [line.quantity for line in others] == [0, 0, 0, 0]


def test_polling_a_stream_costs_nothing() -> None:
    queue = {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {"BatchSize": 10}}
    stream = queue | {"Properties": {"StartingPosition": "LATEST"}}
    receives = at_rest({"Resources": {"queue": queue, "stream": stream}})[-1]
    assert receives.quantity == 5 * 30 * 24 * 3600 / 20


def test_a_metric_of_dashboard_and_alarm_is_counted_once() -> None:
    dimension = {"Name": "service", "Value": "once-orders"}
    alarm = {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {"Namespace": "Once", "MetricName": "A", "Dimensions": [dimension]},
    }
    body = '[["Once","A","service","once-orders"],["Once","B","service","once-orders"]]'
    dashboard = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardBody": body}}
    resources = {"alarm": alarm, "dashboard": dashboard}
    assert custom_metrics({"Resources": resources}) == 2


def test_metrics_are_those_of_mappings_of_queues() -> None:
    metrics = {"MetricsConfig": {"Metrics": ["EventCount"]}}
    kinds = {"on": metrics, "off": {}, "stream": {**metrics, "StartingPosition": "LATEST"}}
    kind = "AWS::Lambda::EventSourceMapping"
    mappings = {name: {"Type": kind, "Properties": given} for name, given in kinds.items()}
    assert mapping_metrics({"Resources": mappings}) == 4


@pytest.mark.parametrize(("batch", "requests"), [(1, 3_000_000), (10, 1_200_000)])
def test_larger_batches_need_fewer_sqs_requests(batch: int, requests: float) -> None:
    lines = {line.name: line.quantity for line in for_a_million(batch=batch)}
    assert lines["SQS requests"] == requests
    assert lines["DynamoDB write units"] == 4_000_000


def test_units_and_prices_agree_with_the_performance_page() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    (units, price, hours) = re.findall(
        r"^\| Once, grouped \| 0\.1 M \| (\d) M \| \$([\d.]+) \| ([\d.]+) h \|$", text, re.MULTILINE
    )[0]
    lines = {line.name: line for line in for_a_million(batch=10)}
    assert lines["DynamoDB write units"].quantity == int(units) * 1e6
    assert lines["DynamoDB write units"].cost == pytest.approx(float(price))
    assert lines["Lambda GB-seconds"].quantity == pytest.approx(float(hours) * 3600 / 2, rel=0.01)
