"""The overview shows what `once status` shows."""

from starlette.testclient import TestClient

from tests.ops.cloud import Cloud


def test_the_overview_shows_each_queue(browser: TestClient, cloud: Cloud) -> None:
    cloud.bury("orders", error="failed")
    text = browser.get("").text
    assert text.count('<tr class="stuck">') == 1
    assert "inventory" in text
