"""The ledger: every change of a pending record is its owner's, fenced by the owner's token."""

from dataclasses import replace
from typing import Any

import pytest

from once.effects.ledger import EffectLedger
from once.errors import EffectUnknown, InFlight, Unanswered
from once.handlers.effect_declaration import Policy
from once.handlers.intent import Intent
from once.schema import CLOCK_MARGIN_SECONDS, Standing
from once.testing import Fault, answer_lost, cancelled, inject, never_sent, refused
from tests.in_memory import Start
from tests.once.effects.pending import EFFECT, PK, effect_of, later, opened, store, stored
from tests.once.effects.provider import LIFETIME, NOW
from tests.once.support import Bench, Log, calls

WRITE = "TransactWriteItems"


@pytest.fixture
def bench(start: Start) -> Bench:
    bench = Bench(start())
    bench.aws.time = NOW
    return bench


@pytest.fixture
def ledger(bench: Bench) -> EffectLedger:
    return bench.ledger


@pytest.mark.parametrize("policy", Policy)
def test_an_intent_is_read_as_it_was_written(ledger: EffectLedger, policy: Policy) -> None:
    intent = ledger.open(effect_of(policy), b'{"name":"\xc3\xa9"}', PK, 10)
    assert Intent.read(intent.item()) == intent
    assert intent.key_expires_at == (NOW + LIFETIME if policy is Policy.PROVIDER_KEY else None)


def test_a_key_derives_from_the_event_and_an_owner_does_not(ledger: EffectLedger) -> None:
    first, second = (ledger.open(EFFECT, b"{}", PK, 10) for _ in "12")
    assert first.provider_key == second.provider_key
    assert first.owner != second.owner
    other = ledger.open(EFFECT, b"{}", "notes#other", 10)
    assert other.provider_key != first.provider_key
    assert PK not in first.provider_key


def test_every_change_is_a_transaction_of_one_update(bench: Bench, ledger: EffectLedger) -> None:
    # The function's role allows writes inside transactions alone.
    mine = opened(bench)
    with calls(bench.client) as made:
        mine = ledger.renew_key(EFFECT, PK, mine)
        ledger.hand_back(PK, mine, Standing.UNKNOWN)
        ledger.take_over(EFFECT, PK, stored(bench), 10)
    assert [name for name, _ in made] == [WRITE] * 3
    assert all([*entry] == ["Update"] for _, p in made for entry in p["TransactItems"])


def test_a_lease_ends_to_the_millisecond(bench: Bench, ledger: EffectLedger) -> None:
    found = opened(bench)
    later(bench, 9.5)
    with pytest.raises(InFlight) as raised:
        ledger.take_over(EFFECT, PK, found, 10)
    assert raised.value.seconds == 0.5
    assert stored(bench) == found
    later(bench, 0.5)
    assert ledger.take_over(EFFECT, PK, found, 7) == stored(bench)
    assert stored(bench).lease_until == (NOW + 10 + 7) * 1000


@pytest.mark.parametrize("standing", [Standing.NOT_DONE, Standing.UNKNOWN])
def test_what_was_handed_back_is_free_before_the_lease_ends(
    bench: Bench, ledger: EffectLedger, standing: Standing
) -> None:
    ledger.hand_back(PK, opened(bench), standing)
    later(bench, 1)
    mine = ledger.take_over(EFFECT, PK, stored(bench), 10)
    assert mine == stored(bench)
    assert mine.standing is Standing.IN_FLIGHT
    assert mine.key_expires_at == NOW + LIFETIME + (standing is Standing.NOT_DONE)


def test_of_two_that_take_over_at_once_one_does(bench: Bench, ledger: EffectLedger) -> None:
    found = opened(bench)
    later(bench)
    first = ledger.take_over(EFFECT, PK, found, 10)
    with pytest.raises(InFlight) as raised:
        ledger.take_over(EFFECT, PK, found, 10)
    assert raised.value.seconds == 0  # how long the other one takes is not known
    assert stored(bench) == first


def test_of_two_that_take_over_a_hand_back_at_once_one_does(
    bench: Bench, ledger: EffectLedger
) -> None:
    ledger.hand_back(PK, opened(bench), Standing.NOT_DONE)
    found = stored(bench)
    ledger.take_over(EFFECT, PK, found, 10)
    with pytest.raises(InFlight):
        ledger.take_over(EFFECT, PK, found, 10)


def test_a_takeover_of_what_is_handed_back_just_then_begins_anew(
    bench: Bench, ledger: EffectLedger
) -> None:
    # What it found says less than what there is by now.
    found = opened(bench)
    later(bench)
    ledger.hand_back(PK, found, Standing.NOT_DONE)
    with pytest.raises(InFlight):
        ledger.take_over(EFFECT, PK, found, 10)
    assert stored(bench).standing is Standing.NOT_DONE


def test_whoever_was_overtaken_neither_renews_nor_hands_back(
    bench: Bench, ledger: EffectLedger
) -> None:
    mine = opened(bench)
    later(bench)
    theirs = ledger.take_over(EFFECT, PK, mine, 10)
    with pytest.raises(InFlight):
        ledger.renew_key(EFFECT, PK, mine)
    ledger.hand_back(PK, mine, Standing.NOT_DONE)
    assert stored(bench) == theirs


def test_a_takeover_that_read_a_key_before_its_renewal_does_not_put_it_back(
    bench: Bench, ledger: EffectLedger
) -> None:
    # Under a clock that is ahead, or at a function that is slow. The renewed key would count as
    # never used, although its owner is calling with it.
    found = opened(bench)
    renewed = ledger.renew_key(EFFECT, PK, found)
    later(bench)
    with pytest.raises(InFlight):
        ledger.take_over(EFFECT, PK, found, 10)
    assert stored(bench) == renewed


def test_what_is_done_is_changed_by_nobody(bench: Bench, ledger: EffectLedger) -> None:
    mine = opened(bench)
    store(bench, mine, state="done")
    with pytest.raises(InFlight):
        ledger.renew_key(EFFECT, PK, mine)
    later(bench)
    with pytest.raises(InFlight):
        ledger.take_over(EFFECT, PK, mine, 10)
    assert stored(bench) == mine


def test_what_was_deleted_does_not_come_back_as_half_a_record(
    bench: Bench, ledger: EffectLedger
) -> None:
    mine = ledger.open(EFFECT, b"{}", PK, 10)
    ledger.hand_back(PK, mine, Standing.UNKNOWN)
    assert bench.aws.items("dedup") == []


def test_a_renewed_key_counts_on_and_lives_anew(bench: Bench, ledger: EffectLedger) -> None:
    mine = opened(bench)
    later(bench, 5)
    renewed = mine
    for _ in range(10):
        renewed = ledger.renew_key(EFFECT, PK, renewed)
    assert renewed.provider_key == mine.provider_key[:-1] + "11"
    assert renewed.owner != mine.owner
    assert renewed == replace(
        mine,
        provider_key=renewed.provider_key,
        key_expires_at=int(NOW) + 5 + LIFETIME,
        owner=renewed.owner,
    )
    assert renewed == stored(bench)


def test_at_most_once_is_taken_over_only_if_not_done(bench: Bench, ledger: EffectLedger) -> None:
    effect = effect_of(Policy.AT_MOST_ONCE)
    found = opened(bench, effect)
    later(bench, 10 + CLOCK_MARGIN_SECONDS)
    for standing in (Standing.IN_FLIGHT, Standing.UNKNOWN):
        with pytest.raises(EffectUnknown, match="find out outside whether it did"):
            ledger.take_over(effect, PK, replace(found, standing=standing), 10)
    ledger.hand_back(PK, found, Standing.NOT_DONE)
    assert ledger.take_over(effect, PK, stored(bench), 10) == stored(bench)


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (cancelled("ConditionalCheckFailed"), InFlight),
        (cancelled("TransactionConflict"), Unanswered),
        (refused("AccessDeniedException"), Unanswered),
        (refused("InternalServerError", status=500), Unanswered),
        (refused("TransactionCanceledException"), Unanswered),
        (never_sent(), Unanswered),
    ],
    ids=["overtaken", "conflict", "denied", "error", "no reasons", "no answer"],
)
def test_a_takeover_failed(bench: Bench, ledger: EffectLedger, fault: Fault, failure: Any) -> None:
    found = opened(bench)
    later(bench)
    with inject(bench.client, WRITE, fault), pytest.raises(failure):
        ledger.take_over(EFFECT, PK, found, 10)
    assert stored(bench) == found


@pytest.mark.parametrize("fault", [answer_lost(), never_sent()], ids=["ours", "not ours"])
def test_an_unanswered_takeover_is_handed_back(
    bench: Bench, ledger: EffectLedger, fault: Fault
) -> None:
    ledger.hand_back(PK, opened(bench), Standing.NOT_DONE)
    with inject(bench.client, WRITE, fault), pytest.raises(Unanswered):
        ledger.take_over(EFFECT, PK, stored(bench), 10)
    assert stored(bench).standing is Standing.NOT_DONE
    assert ledger.take_over(EFFECT, PK, stored(bench), 10) == stored(bench)


def test_a_hand_back_that_fails_is_logged_by_its_kind_alone(bench: Bench) -> None:
    log = Log(bench.aws)
    mine = opened(bench)
    with inject(bench.client, WRITE, *[refused("AccessDeniedException")] * 3):
        bench.ledger.hand_back(PK, mine, Standing.UNKNOWN)
    [line] = log.lines()
    assert (line["message"], line["error"]) == ("effect not handed back", "Unanswered")
    assert not any(secret in log.text() for secret in (PK, mine.provider_key, mine.owner))
