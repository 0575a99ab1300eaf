"""Approaches under load: a short run on the embedded AWS, and the parts of a run."""

from io import StringIO

import pytest
from rich.console import Console

from emulator.embedded_aws import EmbeddedAws
from lab.load.approach_run import Site, run_approach
from lab.load.command import Stage
from lab.load.report import PAGE, Measured, Result, as_json, rewritten
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


@pytest.mark.parametrize("name", APPROACHES)
def test_the_body_of_a_message_names_its_order_only(name: str) -> None:
    body = body_of(APPROACHES[name].subject(URLS))("twice-7")
    assert order_in(body) == "twice-7"
    assert '"order_id": "twice-7"' in body
    assert ORDERS[0]["order_id"] not in body


def test_once_has_to_be_clean_in_both_runs_and_the_page_shows_them() -> None:
    clean, doubled = Result(0, 0, 1, 2, 3.0), Result(1, 0, 0, 2, 3.0)
    measured = Measured(traffic(10), {"once": clean}, {"once": doubled}, {"once": 1.254})
    assert not measured.is_clean("once")
    assert Measured(traffic(10), {"once": clean}, {"once": clean}).is_clean("once")
    found = as_json(measured)
    assert found["approaches"]["once"]["ratio"] == 1.25
    row = "| `once` | 0 | 0 | 1 | 1.25 | 2 | 1 | 0 | 0 |"
    assert row in rewritten(PAGE.read_text(), found)
