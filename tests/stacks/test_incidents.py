"""Incidents and their mails: the table of docs/adr/0080, walked over recorded and made figures."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest

from docs.tools.alarm_states import begins, figures_in, period_of, states, values
from docs.tools.recorded_metrics import Recording
from stacks.consumers import CONSUMERS
from stacks.folders import ROOT
from tests.stacks.cloud import SHOP, Cloud

pytestmark = pytest.mark.skipif(
    {line.name for line in CONSUMERS} != set(SHOP), reason="the incidents are those of the example"
)

TEXT = (ROOT / "docs" / "adr" / "0080-few-alarms.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| ((?:`once-[a-z_-]+`(?:, )?)+|none) \|$", TEXT, re.MULTILINE)
OUTAGE = Recording.read(ROOT / "docs" / "img" / "outage.json")

HOUR, DAY = 60, 24 * 60
"""In minutes, which are the seconds of a recording."""
NOON = 12 * HOUR
"""The minute at which an incident begins; the first day is a Monday."""

VISIBLE = "DeadLetters ApproximateNumberOfMessagesVisible"
Series = Mapping[str, Sequence[Sequence[float]]]


def every(minutes: int, figure: float, begin: int = 0, end: int = DAY) -> list[list[float]]:
    """Return one figure again and again."""
    return [[minute, figure] for minute in range(begin, end, minutes)]


POLLED = {"outbox_relay/Mapping PolledEventCount": every(5, 0, end=9 * DAY)}
MADE: Mapping[str, Series] = {
    "300 malformed bodies": {f"orders/{VISIBLE}": [[5, 300]]},
    "one bad event each six minutes, for a day": {
        f"orders/{VISIBLE}": [[n, n // 6 + 1] for n in range(0, DAY, 6)]
    },
    "2,600 letters of twelve causes at two consumers, in five hours": {
        f"orders/{VISIBLE}": [[n, min(6 * n, 1600)] for n in range(1, 5 * HOUR)],
        f"inventory/{VISIBLE}": [[n, min(4 * n, 1000)] for n in range(1, 5 * HOUR)],
    },
    "a letter; an operator looks, purges, and imports the same within six hours": {
        f"orders/{VISIBLE}": [[5, 4], [60, 0], [61, 4], [90, 0], [200, 4]]
    },
    "letters are forgotten for a week": {f"orders/{VISIBLE}": [[5, 4], [8 * DAY, 4]]},
    "one message fails at each of its five receives": {
        "once-orders Retried": every(3, 1, 1, 13),
        f"orders/{VISIBLE}": [[14, 1]],
    },
    "a handler's bug: every message fails": {
        "once-orders Retried": every(1, 4, 5, 90),
        f"orders/{VISIBLE}": [[n, n - 40] for n in range(41, 90)],
    },
    "a message ends its function": {
        "once-orders Errors": every(2, 1, 5, 12),
        f"orders/{VISIBLE}": [[25, 1]],
    },
    "a new version cannot start": {
        "once-orders Errors": every(1, 5, 5, 90),
        f"orders/{VISIBLE}": [[n, n - 40] for n in range(41, 90)],
    },
    "commits conflict, and succeed in the end": {
        "once-inventory Conflicts": every(1, 50),
        "once-inventory Committed": every(1, 100),
    },
    "an effect whose outcome is unknown": {f"payments/{VISIBLE}": [[5, 1]]},
    "an event that no consumer takes": {
        "unrouted/Queue ApproximateNumberOfMessagesVisible": [[5, 1]]
    },
    "a consumer is too slow": {
        "orders/Queue ApproximateAgeOfOldestMessage": [[n, n * 60] for n in range(0, 2 * HOUR, 5)]
    },
    "the topic refuses events": {
        "once-outbox_relay IteratorAge": [[n, n * 60_000] for n in range(0, 3 * HOUR, 5)]
    },
    "the account's concurrency is used up": {" Throttles": every(1, 3, 5, 60)},
    "a secret of webhooks is wrong": {"once-webhooks WebhooksRejected": every(5, 1, 0, 3 * HOUR)},
}


def recording_of(incident: str) -> Recording:
    if incident.startswith("the provider is down"):
        return Recording(OUTAGE.seconds, {**OUTAGE.series, **POLLED})
    if incident == "the stream is not read":
        return Recording(3 * HOUR, {})
    series = MADE[incident]
    last = max(int(entries[-1][0]) for entries in series.values())
    return Recording(last + 2 * HOUR, {**POLLED, **series})


def mails(cloud: Cloud, recording: Recording) -> Iterator[tuple[int, str]]:
    """Yield minute and alarm of each mail."""
    for alarm in cloud.every("AWS::CloudWatch::Alarm").values():
        figures = figures_in(recording, cloud.service, alarm)
        period = period_of(alarm) // 60
        for begin in begins(states(alarm, figures, NOON // period)):
            yield begin * period, alarm["AlarmName"]


def test_each_row_is_an_incident_of_the_test() -> None:
    found = {incident for incident, _ in ROWS}
    assert found - MADE.keys() - {"the stream is not read"} == {
        incident for incident in found if incident.startswith("the provider is down")
    }
    assert found >= MADE.keys()
    assert len(found) == len(ROWS) == len(MADE) + 2


@pytest.mark.parametrize(("incident", "told"), ROWS)
def test_an_incident_sends_the_mails_of_its_row_and_no_other(
    cloud: Cloud, incident: str, told: str
) -> None:
    found = [name for _, name in sorted(mails(cloud, recording_of(incident)))]
    assert found == re.findall(r"`([^`]+)`", told)


@pytest.mark.parametrize("letters", [1, 2000])
def test_a_mail_on_letters_says_how_many_have_arrived(cloud: Cloud, letters: int) -> None:
    alarm = cloud.of("orders", "LettersAlarm")
    recording = Recording(30, {f"orders/{VISIBLE}": [[12, letters]]})
    found: list[float | None] = values(alarm, figures_in(recording, cloud.service, alarm))
    assert max(filter(None, found)) == letters
