"""The list of call sites, compared with the source and with the cases."""

from pathlib import Path

import pytest

from proof.crashpoints.cases import CASES
from proof.crashpoints.sites import (
    EXPLORED,
    LEFT_OUT,
    calls_in_source,
    unlisted_in_runs,
    unlisted_in_source,
)


def test_every_call_in_the_source_is_listed() -> None:
    assert not unlisted_in_source(calls_in_source())


def test_the_cases_reach_every_listed_site_and_no_other_by_their_own_faults() -> None:
    results = {case: case.run() for case in CASES}
    places = [point.place for result in results.values() for point in result.reached]
    assert not unlisted_in_runs(places)
    for case, result in results.items():
        assert (result.violation, {*result.replay.actions}) == (None, {*case.actions})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("client('sqs').purge_queue(QueueUrl='q')", "once.new.call PurgeQueue"),
        ("client('dynamodb').get_paginator('scan')", "once.new.call Scan"),
        ("[lambda: client('sqs').list_queues()]", "once.new.call.<locals>.<lambda> ListQueues"),
        ("_client(call).v1.refunds.create(params={})", "once.new.call POST /v1/refunds"),
        ("stripe.Refund.create(charge='c')", "once.new.call stripe.Refund.create"),
        ("urllib.request.urlopen('https://a')", "once.new.call urlopen"),
        ("_keys().get('name', max_age=1)", "once.new.call GetSecretValue"),
        ("self._publisher.publish(events)", None),
        ("requests.Session()", None),
    ],
)
def test_a_new_call_in_the_source_is_found(tmp_path: Path, line: str, found: str | None) -> None:
    source = f"def _keys() -> parameters.SecretsProvider: ...\n\ndef call():\n    {line}\n"
    assert calls_in_source(write(tmp_path, source)) == ({found} if found else set())


def test_calls_that_are_not_listed_or_gone_are_reported() -> None:
    new, *gone = unlisted_in_source(["once.new.call PurgeQueue", "once.ops.new.call GetItem"])
    expected = "once.new.call PurgeQueue stands in the source and in no list: reach it by a case"
    assert new.startswith(expected)
    assert len(gone) == len(EXPLORED) + len(LEFT_OUT)
    assert gone[0].endswith("take it out of proof/crashpoints/sites.py")


def test_an_unknown_method_of_stripe_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "client.v1.refunds.cancel('r')\n")
    with pytest.raises(ValueError, match=r"refunds\.cancel .* to _STRIPE"):
        calls_in_source(tmp_path)


def test_sites_that_are_new_or_not_reached_are_reported() -> None:
    new, missed = unlisted_in_runs(["once.new.call sqs.PurgeQueue", *EXPLORED[1:]])
    assert missed.startswith(f"{EXPLORED[0]} is listed, and no case reaches it: write one")
    assert new.startswith("once.new.call sqs.PurgeQueue was reached, and is not listed: reach it")


def write(root: Path, text: str) -> Path:
    (root / "once").mkdir()
    (root / "once" / "new.py").write_text(text)
    return root
