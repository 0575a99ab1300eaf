"""The costs are counted in the templates, and pages and README show the same figures."""

import re

import pytest

from docs.tools.costs import PAGE, for_a_million, page
from once.cdk.resting_cost import at_rest
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


def test_units_and_prices_agree_with_the_performance_page() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    (units, price, hours) = re.findall(
        r"^\| Once, grouped \| 0\.1 M \| (\d) M \| \$([\d.]+) \| ([\d.]+) h \|$", text, re.MULTILINE
    )[0]
    lines = {line.name: line for line in for_a_million(batch=10)}
    assert lines["DynamoDB write units"].quantity == int(units) * 1e6
    assert lines["DynamoDB write units"].cost == pytest.approx(float(price))
    assert lines["Lambda GB-seconds"].quantity == pytest.approx(float(hours) * 3600 / 2, rel=0.01)
