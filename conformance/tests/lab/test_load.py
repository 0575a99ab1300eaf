"""Approaches under load: a short run on the embedded AWS, and the parts of a run."""

from io import StringIO

import pytest
from rich.console import Console

from emulator.embedded_aws import EmbeddedAws
from lab.load.command import run_approach, run_stage
from lab.load.report import PAGE, empty, is_clean, rewritten
from lab.load.traffic import body_of, order_in, traffic
from lab.subjects import APPROACHES, ORDERS
from redelivery import Subject

URLS = {"redis": "unix:///redis", "postgres": "postgresql:///lab"}


def test_none_doubles_claim_first_loses_and_once_does_neither(aws: EmbeddedAws) -> None:
    sent = traffic(40)
    found = empty(sent)
    killed = found["approaches"]

    def kill(name: str, subject: Subject) -> str:
        killed[name] = run_approach(aws, subject, sent, kills=True)
        return ""

    names, console = ["none", "claim_first", "once"], Console(file=StringIO())
    run_stage("with kills", kill, names, found, console, at_once=3)
    none, claim_first, once = (killed[name] for name in names)
    assert (sent.duplicates, none["doubled"] >= 12, none["lost"]) == (12, True, 0)
    assert (claim_first["doubled"], claim_first["lost"]) == (0, claim_first["kills"])
    assert (once["doubled"], once["lost"], once["dead_letters"]) == (0, 0, 0)
    assert {each["kills"] for each in killed.values()} == {2}


@pytest.mark.parametrize("name", APPROACHES)
def test_the_body_of_a_message_names_its_order_only(name: str) -> None:
    body = body_of(APPROACHES[name].subject(URLS))("twice-7")
    assert order_in(body) == "twice-7"
    assert '"order_id": "twice-7"' in body
    assert ORDERS[0]["order_id"] not in body


def test_once_has_to_be_clean_in_both_runs_and_the_page_shows_them() -> None:
    clean = {"doubled": 0, "lost": 0, "dead_letters": 1, "kills": 2, "seconds": 3.0}
    row = {"ratio": 1.25, "without_kills": clean, "with_kills": {**clean, "doubled": 1}}
    found = {**empty(traffic(10)), "approaches": {"once": row}}
    assert not is_clean(found, "once")
    assert "| `once` | 0 | 0 | 1 | 1.25 | 2 | 1 | 0 | 1 |" in rewritten(PAGE.read_text(), found)
    row["with_kills"] = clean
    assert is_clean(found, "once")
