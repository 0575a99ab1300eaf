"""Approaches under load: a short run on the embedded AWS, and the parts of a run."""

import urllib.request
from collections.abc import Mapping
from io import StringIO

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from emulator.embedded_aws import EmbeddedAws
from lab.__main__ import lab
from lab.load.approach_run import ORDERS_PER_KILL, Site, kill_at, run_approach
from lab.load.command import Stage
from lab.load.payments import Kill, payments
from lab.load.report import PAGE, Measured, Result, as_json, lost, rewritten
from lab.load.traffic import body_of, order_in, traffic
from lab.subjects import APPROACHES, ORDERS
from redelivery import Subject

MESSAGES, DUPLICATES = 40, 12
URLS = {"redis": "unix:///redis", "postgres": "postgresql:///lab"}


def test_none_doubles_claim_first_loses_and_once_does_neither(aws: EmbeddedAws) -> None:
    measured = Measured(traffic(MESSAGES))
    site, names = Site(aws), ["none", "claim_first", "once"]

    def kill(name: str, subject: Subject) -> str:
        measured.killed[name] = run_approach(site, subject, measured.sent, kills=True)
        return ""

    Stage(site, names, measured, Console(file=StringIO())).run("with kills", kill, at_once=3)
    none, claim_first, once = (measured.killed[name] for name in names)
    assert (measured.sent.duplicates, none.doubled >= DUPLICATES, none.lost) == (12, True, 0)
    assert (claim_first.doubled, claim_first.lost) == (0, claim_first.kills)
    assert (once.doubled, once.lost, once.dead_letters) == (0, 0, 0)
    assert {each.kills for each in measured.killed.values()} == {2}


def test_three_of_ten_orders_are_sent_twice_half_of_them_at_once() -> None:
    sent = traffic(100)
    first = [order for batch in sent.first for order in batch]
    later = [order for batch in sent.later for order in batch]
    assert (len(sent.orders), sent.duplicates) == (100, 30)
    assert {*first} == {*sent.orders}
    assert {order: first.count(order) for order in first if first.count(order) > 1} == {
        order: 2 for order in sent.orders[70:] if order not in later
    }
    assert len({*later}) == len(later) == 15


@pytest.mark.parametrize("name", APPROACHES)
def test_the_body_of_a_message_names_its_order_only(name: str) -> None:
    body = body_of(APPROACHES[name].subject(URLS))("twice-7")
    assert order_in(body) == "twice-7"
    assert '"order_id": "twice-7"' in body
    assert ORDERS[0]["order_id"] not in body


@pytest.mark.parametrize(
    ("charges", "stored", "letters", "expected"),
    [
        ({"a": 1}, {"a": 1}, [], []),
        ({"a": 2}, {"a": 1}, [], []),
        ({"a": 1}, {}, [], ["a"]),
        ({}, {"a": 1}, [], ["a"]),
        ({}, {}, ["a"], []),
    ],
)
def test_an_order_is_lost_without_effect_and_without_a_dead_letter(
    charges: Mapping[str, int], stored: Mapping[str, int], letters: list[str], expected: list[str]
) -> None:
    assert lost(["a"], charges, stored, letters) == expected


def test_a_charge_is_repeated_without_a_key_only() -> None:
    with payments() as provider:
        for key in ({}, {}, {"Idempotency-Key": "k"}, {"Idempotency-Key": "k"}):
            request = urllib.request.Request(provider.url, b"single-1", headers=key)
            urllib.request.urlopen(request, timeout=5).close()
        assert provider.charges == {"single-1": 3}


@pytest.mark.parametrize(
    ("kind", "moments"),
    [("single", [Kill.BEFORE, Kill.AFTER]), ("twice", [Kill.AFTER, Kill.BEFORE])],
)
def test_kills_are_before_and_after_a_charge_in_turn(kind: str, moments: list[Kill]) -> None:
    found = {n: kill_at(f"{kind}-{n}") for n in range(2 * ORDERS_PER_KILL)}
    assert {n: moment for n, moment in found.items() if moment} == dict(
        zip((0, ORDERS_PER_KILL), moments, strict=True)
    )


def test_once_has_to_be_clean_in_both_runs_and_the_page_shows_them() -> None:
    clean, doubled = Result(0, 0, 1, 2, 3.0), Result(1, 0, 0, 2, 3.0)
    measured = Measured(traffic(10), {"once": clean}, {"once": doubled}, {"once": 1.254})
    assert not measured.is_clean("once")
    assert Measured(traffic(10), {"once": clean}, {"once": clean}).is_clean("once")
    found = as_json(measured)
    assert found["approaches"]["once"]["ratio"] == 1.25
    row = "| `once` | 0 | 0 | 1 | 1.25 | 2 | 1 | 0 | 0 |"
    assert row in rewritten(PAGE.read_text(), found)


@pytest.mark.parametrize("messages", ["0", "-1", "many"])
def test_the_number_of_messages_is_a_positive_integer(
    messages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.load.command.run_load", lambda *_: True)
    command = typer.Typer()
    command.command()(lab)
    answer = CliRunner().invoke(command, env={"LOAD": messages})
    assert (answer.exit_code, "LOAD" in answer.output) == (2, True)
