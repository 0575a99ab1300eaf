"""Audit of the shop's orders, from the request to the e-mail, and of the sample events."""

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demo.audit.evidence import Evidence, Item, Manifest, count_fates, number, text

RESERVATION_STATUS = {
    "paid": "sold",
    "refused": "refused",
    "declined": "released",
    "cancelled": "released",
}
"""The status at which a reservation must end, by that of its order."""
_PAYMENT_STATUS = {
    "paid": "captured",
    "declined": "declined",
    "cancelled": "cancelled",
    "refused": "",
}
_MAIL = {
    "paid": "We have received",
    "declined": "declined",
    "cancelled": "not received your payment",
    "refused": "in stock",
}
"""Text of the message to the customer, by the end of the order."""
_ENDS = ("payment.captured", "payment.declined", "order.cancelled")
"""The types of the events of which an order has one."""
_SOON_SECONDS = 60
"""An event that is due later than that is not waited for, and not missed."""
_HOLDING = ("reserved", "sold")
_CHECKOUT, _SUBMITTED = "checkout", "order.submitted"
_ACCEPTED, _ORDER_EXISTS, _KEY_REUSED = 202, 409, 422
"""Statuses of the answers to an order's caller, to another caller, and to other content."""
_RECEIVE_ALL = ("orders", "inventory")
"""Consumers that receive every message, so that every expected dead letter must exist."""
_UNREADABLE_REASONS = ("unparseable", "invalid-event", "invalid-data", "no-key", "too-large")
_APPLIED = ("committed", "refused")
"""Outcomes that a function logs when an event took effect, and not for a duplicate."""


@dataclass(frozen=True, slots=True)
class SampleFigures:
    """Sample events of one consumer; duplicates count as received and not as distinct."""

    received: int
    distinct: int
    doubled: int
    lost: int

    def __str__(self) -> str:
        return (
            f"{self.received} received, {self.distinct} distinct, {self.doubled} doubled, "
            f"{self.lost} lost"
        )


@dataclass
class Findings:
    """The audit's result.

    An effect is what an event should have changed once: an order stored, stock moved, a card
    charged, a customer written to. `lost` counts missing effects that are neither quarantined nor
    refused, and commands without an answer. `doubled` counts excess effects. `answers_differ`
    counts answers to a command that are not those bytes that it had first, that are first answers
    beside another one, or that were given to other content. `answers_foreign` counts answers that
    accept the order of another caller. `unfinished` counts orders, reservations and payments
    without a final status, or with a wrong one. `stock_balance_error` is the difference between
    stock moved and stock reserved or sold, in pieces. `balance_error` is the difference between
    amounts ordered and paid, in minor units, and between stock moved and stock expected to move.
    `due_events` are the events that were published for later. `due_lost` counts those without a
    record at their consumer, `due_early` those that were committed before they were due, and
    `due_doubled` orders that had a second end, or whose time to pay was set twice.
    `samples` has the figures of each consumer of sample events; `lost` and `doubled` include them.
    """

    sent: int
    distinct: int
    deliveries: int = 0
    commands_sent: int = 0
    commands_repeated: int = 0
    answers_lost: int = 0
    answers_differ: int = 0
    answers_foreign: int = 0
    orders_stored: int = 0
    orders_paid: int = 0
    orders_refused: int = 0
    orders_declined: int = 0
    orders_cancelled: int = 0
    unfinished: int = 0
    stock_moved: int = 0
    stock_balance_error: int = 0
    charges: int = 0
    double_charges: int = 0
    refunds: int = 0
    due_events: int = 0
    due_lost: int = 0
    due_early: int = 0
    due_doubled: int = 0
    emails: int = 0
    effects: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    balance_error: int = 0
    unexplained_dead_letters: int = 0
    quarantined_by_reason: Counter[str] = field(default_factory=Counter)
    unexplained_by_reason: Counter[str] = field(default_factory=Counter)
    samples: dict[str, SampleFigures] = field(default_factory=dict)

    @property
    def quarantined(self) -> int:
        """Number of quarantined messages, each counted once for each consumer."""
        return self.quarantined_by_reason.total()

    @property
    def clean(self) -> bool:
        """Whether nothing is lost, doubled, unfinished or unexplained, and everything adds up."""
        faults = (
            self.lost,
            self.doubled,
            self.answers_differ,
            self.answers_foreign,
            self.double_charges,
            self.due_lost,
            self.due_early,
            self.due_doubled,
            self.unfinished,
            self.balance_error,
            self.stock_balance_error,
            self.unexplained_dead_letters,
        )
        return self.effects > 0 and not any(faults)

    def count(self, found: int, expected: int = 1) -> None:
        """Count one effect that should have happened `expected` times."""
        self.effects += min(found, expected)
        self.lost += max(0, expected - found)
        self.doubled += max(0, found - expected)


def audit(manifest: Manifest, evidence: Evidence) -> Findings:
    """Compare the messages of a manifest with tables, queues, payment provider and mailboxes."""
    findings = Findings(sent=manifest["sent"], distinct=len(manifest["orders"]))
    _audit_commands(manifest, evidence, findings)
    stored = evidence.by_key("orders", "order_id")
    ends = {
        each["order_id"]: end_of(each, stored.get(each["order_id"], {}))
        for each in manifest["orders"]
    }
    _audit_orders(manifest, evidence, ends, findings)
    _audit_stock(manifest, evidence, ends, findings)
    audit_payments(manifest, evidence, ends, findings)
    _audit_due_events(evidence, findings)
    unsent = _audit_dead_letters(manifest, evidence, findings)
    _audit_mail(manifest, evidence, ends, unsent, findings)
    findings.lost += undelivered_events(evidence)
    audit_samples(manifest, evidence, findings)
    groups = evidence.log_groups.values()
    findings.deliveries = sum(count_fates(evidence.logs, group).total() for group in groups)
    return findings


def end_of(order: Manifest, stored: Item) -> str:
    """Return the status at which an order must end.

    One whose payment took too long is cancelled, whatever the payment would have been.
    """
    if order["refused"]:
        return "refused"
    if order["abandoned"] or text(stored, "status") == "cancelled":
        return "cancelled"
    return "declined" if order["declined"] else "paid"


def _audit_commands(manifest: Manifest, evidence: Evidence, findings: Findings) -> None:
    """Check the answers to each command, and count its order in the outboxes of the records.

    A borrowed command has the key and the content of another caller's order. Its caller must learn
    that the order exists, and never get the answer that accepts it.
    """
    placed = Counter(
        event["subject"]
        for consumer, _, record in _dedup_records(evidence)
        if consumer == _CHECKOUT
        for event in json.loads(text(record, "outbox") or "[]")
        if event["type"] == _SUBMITTED
    )
    for command in manifest["commands"]:
        answers = [each for each in command["answers"] if not each["altered"]]
        expected = _ORDER_EXISTS if command["borrowed"] else _ACCEPTED
        findings.lost += not any(each["status"] == expected for each in answers)
        findings.answers_foreign += sum(_is_foreign(each, command) for each in command["answers"])
        contents = {(each["status"], each["content_type"], each["body"]) for each in answers}
        firsts = sum(not each["repeated"] for each in answers)
        reused = [each for each in command["answers"] if each["altered"]]
        findings.answers_differ += max(0, len(contents) - 1) + max(0, firsts - 1)
        findings.answers_differ += sum(each["status"] != _KEY_REUSED for each in reused)
        if not command["borrowed"]:
            findings.commands_sent += 1
            findings.commands_repeated += command["requests"] > 1
            findings.answers_lost += command["lost"]
            findings.count(placed[command["order_id"]])


def _is_foreign(answer: Mapping[str, Any], command: Manifest) -> bool:
    if answer["status"] != _ACCEPTED:
        return False
    named = json.loads(answer["body"])["order_id"]
    return bool(command["borrowed"] or named != command["order_id"])


Ends = Mapping[str, str]
"""The status at which each order must end, by its id."""


def _audit_orders(
    manifest: Manifest, evidence: Evidence, expected: Ends, findings: Findings
) -> None:
    """Count each order by its customer's account: an order stored twice overwrites itself."""
    stored = evidence.by_key("orders", "order_id")
    customers = evidence.by_key("customers", "customer_id")
    for order in manifest["orders"]:
        found = stored.get(order["order_id"], {})
        account = customers.get(order["customer_id"], {})
        times = number(account, "orders_placed")
        # An order without a total was never stored: setting its status creates the item too.
        findings.count(times if number(found, "total") == order["total"] else 0)
        findings.balance_error += abs(number(account, "amount_ordered") - times * order["total"])
        findings.unfinished += text(found, "status") != expected[order["order_id"]]
    ends = Counter(text(order, "status") for order in stored.values())
    findings.orders_stored = len(stored)
    findings.orders_paid = ends["paid"]
    findings.orders_refused = ends["refused"]
    findings.orders_declined = ends["declined"]
    findings.orders_cancelled = ends["cancelled"]


def _audit_stock(manifest: Manifest, evidence: Evidence, ends: Ends, findings: Findings) -> None:
    """Compare stock moved with reservations; each order has an article of its own to count by."""
    shelf = evidence.by_key("stock", "sku")
    moved = {
        sku: initial - number(shelf.get(sku, {}), "available")
        for sku, initial in manifest["stock"].items()
    }
    reservations = evidence.by_key("reservations", "order_id")
    expected: Counter[str] = Counter()
    for order in manifest["orders"]:
        status = text(reservations.get(order["order_id"], {}), "status")
        findings.refused += status == "refused"
        findings.unfinished += status == "reserved"
        own, end = order["lines"][0], RESERVATION_STATUS[ends[order["order_id"]]]
        times = moved[own["sku"]] // own["quantity"]
        if end == "sold":
            findings.count(times if status == end else 0)
            for line in order["lines"]:
                expected[line["sku"]] += line["quantity"]
        else:
            findings.count(int(status == end))
            findings.doubled += abs(times)  # reserved although refused, or released more than once
    held = _held(reservations.values())
    findings.stock_moved = sum(moved.values())
    findings.stock_balance_error = sum(abs(moved[sku] - held[sku]) for sku in moved)
    findings.balance_error += sum(abs(moved[sku] - expected[sku]) for sku in moved)


def _held(reservations: Iterable[Item]) -> Counter[str]:
    """Return the quantities held by reservations, by SKU."""
    held: Counter[str] = Counter()
    for reservation in reservations:
        if text(reservation, "status") in _HOLDING:
            quantities = reservation.get("quantities", {}).get("M", {})
            held.update({sku: int(quantity["N"]) for sku, quantity in quantities.items()})
    return held


def audit_payments(manifest: Manifest, evidence: Evidence, ends: Ends, findings: Findings) -> None:
    """Check that every paid order was charged once with its amount, and no other order.

    A cancelled one may have been charged once too late: the whole charge must be refunded then.
    """
    charges: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for charge in evidence.charges:
        if charge["status"] == "succeeded":
            charges[charge["metadata"].get("order_id", "")].append(charge)
    findings.charges = sum(map(len, charges.values()))
    payments = evidence.by_key("payments", "order_id")
    for order in manifest["orders"]:
        found, end = charges.pop(order["order_id"], []), ends[order["order_id"]]
        refunded = [charge for charge in found if charge["amount_refunded"] == charge["amount"]]
        findings.refunds += len(refunded)
        expected = int(end == "paid")
        if end == "cancelled" and len(refunded) == len(found) == 1:
            expected = 1
        findings.double_charges += len(refunded) * (end != "cancelled")  # and nothing is charged
        findings.count(len(found), expected)
        findings.double_charges += max(0, len(found) - expected)
        findings.balance_error += sum(abs(charge["amount"] - order["total"]) for charge in found)
        payment = payments.get(order["order_id"], {})
        agrees = text(payment, "status") == _PAYMENT_STATUS[end]
        findings.unfinished += not agrees
        if end in ("declined", "cancelled"):
            findings.count(int(agrees))
        if payment:
            findings.balance_error += abs(number(payment, "amount") - order["total"])
    # A charge without an order is one charge too many.
    findings.double_charges += sum(map(len, charges.values()))


def _audit_due_events(evidence: Evidence, findings: Findings) -> None:
    """Compare the events that were published for later with the records of their consumers."""
    records = {text(record, "pk"): record for *_, record in _dedup_records(evidence)}
    ends, times = Counter[str](), Counter[str]()
    for *_, record in _dedup_records(evidence):
        for event in json.loads(text(record, "outbox") or "[]"):
            ends[event.get("subject", "")] += event["type"] in _ENDS
            if "oncedue" not in event:
                continue
            findings.due_events += 1
            times[event.get("subject", "")] += 1
            due = datetime.fromisoformat(event["time"]).timestamp()
            for consumer in evidence.subscribers.get(event["type"], ()):
                key = f"{consumer}#event#{event['source']}#{event['id']}"
                committed = number(records.get(key, {}), "committed_at") / 1000
                findings.due_early += 0 < committed < due
                findings.due_lost += not committed and due < time.time() + _SOON_SECONDS
    findings.due_doubled += sum(count - 1 for count in (+times).values())
    findings.due_doubled += sum(count - 1 for count in (+ends).values())


def _audit_dead_letters(manifest: Manifest, evidence: Evidence, findings: Findings) -> set[str]:
    """Match dead letters with the manifest; return the orders of unknown e-mails."""
    orders = {order["order_id"] for order in manifest["orders"]}
    unsent: set[str] = set()
    for consumer, url in evidence.dead_letters.items():
        due = Counter({order["event_id"]: int(order["conflicts"]) for order in manifest["orders"]})
        due.update(manifest["malformed"])
        due = +due
        for dead_letter in evidence.messages(url):
            reason = _attribute(dead_letter, "once-reason")
            is_own = _attribute(dead_letter, "once-consumer") == consumer
            order = ""
            if is_own and (consumer, reason) == ("notifications", "effect-unknown"):
                order = str(json.loads(dead_letter["Body"])["data"]["order_id"])
            name = _name_of(dead_letter["Body"], reason)
            if order in orders:
                unsent.add(order)
            elif not is_own or name not in due:
                findings.unexplained_dead_letters += 1
                findings.unexplained_by_reason[f"{consumer}: {reason or 'by SQS'}"] += 1
            elif due[name] > 0:  # a crash between quarantine and answer may leave a second copy
                due[name] -= 1
                findings.quarantined_by_reason[reason] += 1
        if consumer in _RECEIVE_ALL:
            findings.lost += due.total()
    findings.quarantined_by_reason += Counter({"effect-unknown": len(unsent)})
    return unsent


def _name_of(body: str, reason: str) -> str:
    """Return a dead letter's name in the manifest: an event id, or a malformed body's digest."""
    if reason == "key-conflict":
        return str(json.loads(body)["id"])
    if reason in _UNREADABLE_REASONS:
        return hashlib.sha256(body.encode()).hexdigest()
    return f"unexplained: {reason}"


def _attribute(dead_letter: Mapping[str, Any], name: str) -> str:
    return str(dead_letter.get("MessageAttributes", {}).get(name, {}).get("StringValue", ""))


def _audit_mail(
    manifest: Manifest,
    evidence: Evidence,
    ends: Ends,
    unsent: Collection[str],
    findings: Findings,
) -> None:
    """Count the messages to each customer: one of the order's end, or a dead letter in its place.

    A message of another end counts as one too many.
    """
    sent: dict[str, list[str]] = defaultdict(list)
    for email in evidence.emails:
        for address in email["To"]:
            sent[address].append(email["BodyText"])
    findings.emails = sum(map(len, sent.values()))
    for order in manifest["orders"]:
        name, found = order["order_id"], sent[order["email"]]
        fitting = sum(_MAIL[ends[name]] in body for body in found)
        findings.doubled += len(found) - fitting
        if fitting or name not in unsent:
            findings.count(fitting)


def _dedup_records(evidence: Evidence) -> Iterator[tuple[str, str, Item]]:
    """Yield the consumer and the event type of each dedup record, and the record."""
    for record in evidence.items("dedup"):
        if text(record, "pk").startswith("#"):
            continue  # a note or an archive of operators
        if "dedup_key" not in record:  # a sequence item: its events are in a dedup record as well
            yield text(record, "pk").split("#")[0], text(record, "event_type"), record


def undelivered_events(evidence: Evidence) -> int:
    """Return the number of deliveries of published events that have no dedup record yet.

    Those that are due in more than a minute are left out.
    """
    published: Counter[str] = Counter()
    soon = time.time() + _SOON_SECONDS
    recorded: Counter[tuple[str, str]] = Counter()
    for consumer, event_type, record in _dedup_records(evidence):
        published.update(
            event["type"]
            for event in json.loads(text(record, "outbox") or "[]")
            if "oncedue" not in event or datetime.fromisoformat(event["time"]).timestamp() < soon
        )
        recorded[consumer, event_type] += 1
    return sum(
        max(0, count - recorded[consumer, event_type])
        for event_type, count in published.items()
        for consumer in evidence.subscribers.get(event_type, ())
    )


def audit_samples(manifest: Manifest, evidence: Evidence, findings: Findings) -> None:
    """Compare the sample events with the dedup records and the logs of their consumers.

    A consumer that logs more effects than it has dedup records has applied an event twice.
    """
    distinct: dict[str, Counter[str]] = defaultdict(Counter)
    for sample in manifest.get("samples", ()):
        for consumer in sample["consumers"]:
            distinct[consumer][sample["type"]] += sample["distinct"]
    recorded: dict[str, Counter[str]] = defaultdict(Counter)
    for consumer, event_type, _ in _dedup_records(evidence):
        recorded[consumer][event_type] += 1
    for consumer, types in sorted(distinct.items()):
        fates, found = count_fates(evidence.logs, evidence.log_groups[consumer]), recorded[consumer]
        figures = SampleFigures(
            received=fates.total(),
            distinct=types.total(),
            doubled=max(0, sum(fates[each] for each in _APPLIED) - found.total()),
            lost=sum(max(0, count - found[kind]) for kind, count in types.items()),
        )
        findings.samples[consumer] = figures
        findings.doubled += figures.doubled
        findings.lost += figures.lost
