"""The console answers its operator alone, and says so in headers that browsers obey."""

import pytest
from starlette.testclient import TestClient

from once.ops.console.server import console_app
from once.ops.console.state import ConsoleState
from tests.ops.console.conftest import ADDRESS, OWN

ROOT = "http://127.0.0.1:8080"
OTHER_SITE = {"origin": "https://example.com", "sec-fetch-site": "cross-site"}


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("", {}, 200),
        ("", {"host": "localhost:8080"}, 200),
        ("", {"host": "attacker.example"}, 421),
        ("", {"host": "127.0.0.1:9090"}, 421),
        (f"{ROOT}/other-token/", {}, 403),
        (f"{ROOT}/", {}, 403),
        ("", OTHER_SITE, 403),
        ("", {"origin": "http://127.0.0.1:9090", "sec-fetch-site": "same-site"}, 403),
        ("", {"origin": "null", "sec-fetch-site": "none"}, 403),
        ("", {"origin": OWN["origin"], "sec-fetch-site": "none"}, 200),
        ("static/console.css", {}, 200),
        ("static/%2e%2e/app.py", {}, 404),
        ("nothing", {}, 404),
    ],
)
def test_a_request_is_answered_if_it_is_the_operators(
    browser: TestClient, path: str, headers: dict[str, str], status: int
) -> None:
    answer = browser.get(path, headers=headers)
    assert answer.status_code == status
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "same-origin"


def test_a_form_of_another_site_is_refused(browser: TestClient) -> None:
    assert browser.post("jobs/x/start", headers=OTHER_SITE).status_code == 403
    assert browser.post("jobs/x/start").status_code == 404  # its own form; there is no job x


def test_a_form_without_an_origin_is_refused(state: ConsoleState) -> None:
    with TestClient(console_app(state, ADDRESS), base_url=ADDRESS.url) as client:
        assert client.post("jobs/x/start").status_code == 403


def test_a_read_only_console_refuses_every_change(state: ConsoleState) -> None:
    read_only = ConsoleState(state.deployment, read_only=True)
    with TestClient(console_app(read_only, ADDRESS), base_url=ADDRESS.url, headers=OWN) as client:
        assert client.post("jobs/x/start").status_code == 403
        assert "read-only" in client.get("").text


def test_an_error_of_the_console_is_a_page_of_its_own(
    state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise ValueError("<b>a fault</b>")

    monkeypatch.setattr(state.queues, "latest", fails)
    app = console_app(state, ADDRESS)
    with TestClient(
        app, base_url=ADDRESS.url, headers=OWN, raise_server_exceptions=False
    ) as client:
        answer = client.get("")
    assert answer.status_code == 500
    assert "&lt;b&gt;a fault" in answer.text
    assert "content-security-policy" in answer.headers
