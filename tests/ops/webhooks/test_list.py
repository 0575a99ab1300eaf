"""`once webhooks list` and `show`: captures by time and by id; and the JSON of all the commands."""

import json
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from once.events.identity import key_hash
from once.names import StackOutput
from once.ops.webhooks import captures
from once.ops.webhooks.capture_text import CONFLICTS, STANDINGS
from once.webhooks.captured_webhook import CaptureStanding, Conflict
from once.webhooks.endpoint import CAPTURES
from tests.ops.support import rows, run, stderr_of, stdout_of
from tests.ops.test_main import WEBHOOKS, has_documented_shape
from tests.ops.webhooks.ingress import BUCKET, Receiver, Webhooks, stripe

DAY = 86400
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e\u2066\x7f\r\n[bold]:smile:"
LARGE = stripe("evt_large", text="x" * 120_000)  # Stripe's profile takes 128 KB


def listed(*options: object) -> list[str]:
    found = json.loads(stdout_of("webhooks", "list", "--json", *options))
    return [one["webhook_id"] for one in found["webhooks"]]


def shown(*arguments: object) -> Any:
    return json.loads(stdout_of("webhooks", "show", *arguments, "--json"))


@pytest.fixture
def several(webhooks: Webhooks) -> Webhooks:
    """Webhooks of three days, and one of each standing."""
    for number, age in enumerate((3 * DAY + 10, 2 * DAY + 10, 3000, 2000, 1000)):
        webhooks.age = age
        webhooks.receive(stripe(f"evt_{number}", "charge.refunded" if number % 2 else "other"))
    webhooks.age = 500
    webhooks.receive(b'{"a": 1}', "github", webhook_id="g-1", x_github_event="push")
    webhooks.age = 400
    webhooks.receive(stripe("evt_3", amount=2))
    webhooks.age = 300
    webhooks.receive(b"\xff\x00", "custom")
    return webhooks


SELECTIONS: dict[tuple[object, ...], list[str | None]] = {
    (): [None, "evt_3", "g-1", "evt_4", "evt_3", "evt_2"],
    ("--limit", 2): [None, "evt_3"],
    ("--since", "40m"): [None, "evt_3", "g-1", "evt_4", "evt_3"],
    ("--since", "4d", "--until", "1d"): ["evt_1", "evt_0"],
    ("--until", "25m"): ["evt_3", "evt_2"],
    ("--type", "charge.refunded"): ["evt_3", "evt_3"],
    ("--type", "github.push"): ["g-1"],
    ("--endpoint", "github"): ["g-1"],
    ("--standing", "unreadable"): [None],
    ("--standing", "conflict"): ["evt_3"],
    ("--standing", "captured", "--since", "4d"): ["evt_4", "evt_2", "evt_0"],
}


def test_list_selects_the_newest_first(several: Webhooks) -> None:
    assert {options: listed(*options) for options in SELECTIONS} == SELECTIONS
    standings = {row[3] for row in rows(stdout_of("webhooks", "list"))}
    assert standings == {"captured", "unreadable", "conflict, other content", "handed on"}


def test_list_reads_every_page(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "_PAGE", 2)
    for number in range(9):
        webhooks.age = 60 * number  # further apart than a slow machine needs for one
        webhooks.receive(stripe(f"evt_{number}"))
    assert listed() == [f"evt_{number}" for number in range(9)]


def test_show_tells_everything_of_a_webhook(webhooks: Webhooks) -> None:
    capture = webhooks.receive(stripe(), content_type="application/json")
    output = stdout_of("webhooks", "show", "evt_1")
    event_id = f"{key_hash(capture.pk)}.0"
    for text in (
        *("endpoint       stripe, profile stripe", "standing       handed on"),
        f"stripe.charge.refunded, id {event_id}, source /once/webhooks",
        *("content-type: application/json", "stripe-signature: t=", '"id": "evt_1"'),
        *(capture.pk, capture.body_sha256, f"once trace {event_id} --source /once/webhooks"),
    ):
        assert text in output


def test_show_finds_a_webhook_by_each_of_its_names(webhooks: Webhooks) -> None:
    capture = webhooks.receive(stripe())
    webhooks.receive(stripe("evt_2"))
    for name in ("evt_1", capture.pk, capture.body_sha256, capture.body_sha256[:8]):
        assert shown(name)["dedup_key"] == capture.pk
    assert "2 webhooks match" in stderr_of("webhooks", "show", capture.pk[:-1])


def test_an_id_that_is_no_part_of_the_key_is_found_by_time(webhooks: Webhooks) -> None:
    webhooks.age = 1.5 * DAY
    webhooks.receive(b'{"a": 1}', "github", webhook_id="g-1", x_github_event="push")
    assert shown("g-1")["type"] == "push"
    assert "no webhook 'g-1' was captured since" in stderr_of(
        "webhooks", "show", "g-1", "--since", "1d"
    )


def test_a_body_is_written_byte_by_byte(webhooks: Webhooks, tmp_path: Path) -> None:
    for number, body in enumerate((stripe(), LARGE, b"\xff\x00\x1b[31m", b"")):
        capture, file = webhooks.receive(body, "custom"), tmp_path / str(number)
        show = ("webhooks", "show", capture.body_sha256, "--body-to", file)
        assert f"its body is in {file}" in stdout_of(*show)
        assert file.read_bytes() == body
        assert "name a new file" in stderr_of(*show, code=2)


def test_a_large_body_comes_from_s3(webhooks: Webhooks) -> None:
    body = json.dumps({"ref": "x" * 300_000}).encode()
    webhooks.receive(body, "github", webhook_id="g-1", x_github_event="ping")
    assert shown("g-1")["body"] == body.decode()
    [stored] = webhooks.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    webhooks.s3.put_object(Bucket=BUCKET, Key=stored["Key"], Body=b"{}")
    assert "its body was changed" in stderr_of("webhooks", "show", "g-1")
    webhooks.s3.delete_object(Bucket=BUCKET, Key=stored["Key"])
    assert "ask the provider to send the webhook again" in stderr_of("webhooks", "show", "g-1")


def test_no_text_of_a_webhook_reaches_the_terminal_as_it_is(webhooks: Webhooks) -> None:
    body = json.dumps({"id": HOSTILE, "type": HOSTILE}, ensure_ascii=False).encode()
    capture = webhooks.put(
        body,
        pk=f"webhooks#event#/webhooks/stripe#{HOSTILE}",
        webhook_id=HOSTILE,
        webhook_type=HOSTILE,
        event_type=f"stripe.{HOSTILE}",
        path=f"/stripe?{HOSTILE}",
        method=HOSTILE,
        headers={f"x-{HOSTILE}": HOSTILE},
    )
    webhooks.put(HOSTILE.encode(), webhook_type=HOSTILE)
    commands = (("list",), ("show", capture.pk), ("show", capture.body_sha256[:10]))
    for command in commands:
        for options in ((), ("--json",)):
            output = stdout_of("webhooks", *command, *options)
            assert all(c.isprintable() or c == "\n" for c in output)
            assert "[bold]:smile:" in output  # markup is text as well
    assert "\\x1b" in stderr_of("webhooks", "show", HOSTILE[:4], "--endpoint", f"x{HOSTILE}")


def test_a_capture_of_another_version_is_left_out_and_named(webhooks: Webhooks) -> None:
    capture = webhooks.put()
    webhooks.receive(stripe())
    table = boto3.resource("dynamodb").Table(CAPTURES)
    table.put_item(Item=capture.item() | {"standing": "new-standing"})
    assert listed() == ["evt_1"]
    assert "use the version" in stderr_of("webhooks", "show", capture.pk)


def test_errors_say_what_is_wrong(webhooks: Webhooks, monkeypatch: pytest.MonkeyPatch) -> None:
    error = stderr_of("webhooks", "list", "--endpoint", "strip")
    assert "choose one of stripe, github" in error
    assert "is no point in time" in stderr_of("webhooks", "list", "--since", "1w", code=2)
    assert "is not before --until" in stderr_of(
        "webhooks", "list", "--since", "1d", "--until", "2d", code=2
    )
    webhooks.receive(stripe())
    monkeypatch.setattr(captures, "MAX_READ", 0)
    assert "narrow the search" in stderr_of("webhooks", "list")
    webhooks.cloud.service[StackOutput.WEBHOOK_ENDPOINTS] = '[{"name": "a"}]'
    assert "deploy" in stderr_of("webhooks", "list")


def test_every_standing_and_every_conflict_has_its_words() -> None:
    assert {*STANDINGS} | {CaptureStanding.CONFLICT} == {*CaptureStanding}
    assert {*CONFLICTS} == {*Conflict}


def test_a_conflict_is_listed_and_shown_with_its_reason_and_the_earlier_webhook(
    webhooks: Webhooks,
) -> None:
    first, second = (
        webhooks.receive(b"{}", "github", webhook_id="g-1", x_github_event=kind)
        for kind in ("issues", "push")
    )
    [row] = rows(stdout_of("webhooks", "list", "--standing", "conflict"))
    assert row[2:4] == ["push", "conflict, other type"]
    output = stdout_of("webhooks", "show", row[5])
    assert "its bytes came before with another type, which is not signed" in output
    assert f"earlier key    {first.pk}" in output
    found = shown(row[5])
    assert (found["dedup_key"], found["conflict"]) == (second.pk, "type")
    assert shown(found["conflicts_with"])["type"] == "issues"
    assert "2 webhooks match" in stderr_of("webhooks", "show", "g-1")


ARGUMENTS = {
    "webhooks list": (),
    "webhooks show": ("evt_1",),
    "webhooks replay": ("evt_1", "--to-queue", "orders", "--yes"),
    "webhooks send": ("stripe",),
    "webhooks listen": ("--since", "1h", "--to"),
}


def test_stdout_is_one_value_of_the_documented_shape(
    webhooks: Webhooks, gateway: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    assert set(ARGUMENTS) == WEBHOOKS
    webhooks.cloud.set_types("orders", events=["stripe.charge.refunded"])
    webhooks.receive(stripe())
    monkeypatch.setattr(time, "sleep", stop)  # the end of `listen`
    for command, arguments in ARGUMENTS.items():
        to = (gateway.url,) if command == "webhooks listen" else ()
        result = run(*command.split(), *arguments, *to, "--json")
        assert result.exit_code == 0, result.output
        assert has_documented_shape(command, result.stdout), result.output
