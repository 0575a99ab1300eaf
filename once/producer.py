"""Producer: publishes events to the ingress topic, from any program that has a client of SNS.

An event is made once, with the id that all of its copies have, and may be published any number of
times: consumers deduplicate the copies. The relay publishes with the same batches and checks.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from once.errors import InvalidWrite, NoKey, OnceError, TooLarge
from once.events.cloud_event import DATAREF
from once.events.identity import digest
from once.events.outgoing import OutgoingEvent, body_of, draft
from once.names import EVENT_TYPE, EVENT_TYPE_RULE, SOURCE_PREFIX
from once.outbox.publisher import Publisher, Unpublished, remaining
from once.runtime.deadline import full_jitter

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

_ATTEMPTS = 6
_NAMED_EVENTS = 10


class NotPublished(OnceError):
    """Some events are not known to be published.

    Remedy: correct the cause that the error states, and publish `events` again. Their ids are the
    same, so consumers deduplicate those that the topic took although its answer was lost.

    Attributes:
        events: the events that are not known to be published, in their order.
    """

    def __init__(self, events: Sequence[OutgoingEvent], failures: Iterable[Unpublished]) -> None:
        self.events = tuple(events)
        texts = [f"{_name(each.event)} ({each.error})" for each in failures][:_NAMED_EVENTS]
        if more := len(events) - len(texts):
            texts.append(f"{more} more")
        super().__init__(
            f"not known to be published: {', '.join(texts)}; publish them again, with the same ids"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Makes and publishes the events of one source.

    Attributes:
        source: the CloudEvents `source`. With the id, it identifies an event.
        topic_arn: the ingress topic, output `IngressTopicArn`. For types that a FIFO consumer
            takes: output `OrderedIngressTopicArn`.
        sns: the client, `boto3.client("sns")`.
    """

    source: str
    topic_arn: str
    sns: "SNSClient"
    sleep: Callable[[float], None] = time.sleep

    def event(
        self,
        event_type: str,
        data: Any,
        *,
        key: str | None = None,
        event_id: str | None = None,
        subject: str | None = None,
        grouped_by: str | None = None,
        dataref: str | None = None,
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> OutgoingEvent:
        """Return an event that every consumer can read.

        Args:
            event_type: the CloudEvents `type`, by which queues select.
            data: an object of a model, or anything that JSON can hold.
            key: business key, unique within the type. The event's id derives from both.
            event_id: the event's id, in place of a key.
            subject: the CloudEvents `subject`, if the event has one.
            grouped_by: field of the data that gives the message group, as `ordered_by=` or
                `fair_by=` of the consumers.
            dataref: URI of the data in the claim-check bucket, under `producers/`, for data that is
                too large for the topic. The event then holds the reference alone.
            attributes: further context attributes of CloudEvents, such as `time`.

        Raises:
            NoKey: there is neither a key nor an id, both, or a blank one.
            InvalidWrite: consumers could not read or select the event, or its data gives no group.
            TooLarge: the event is over SNS's limit.
        """
        found = key if event_id is None else event_id
        if (key is None) == (event_id is None) or not (found and found.strip()):
            raise NoKey(
                f"{event_type} has no id: give either key=, the business key, or event_id=; a "
                "repeated run of the program must give the same"
            )
        if key is not None:
            try:
                found = digest([event_type, key])
            except UnicodeEncodeError:
                raise NoKey(f"{event_type} has a key= with half of a surrogate pair") from None
        envelope = {"specversion": "1.0", "id": found, "source": self.source, "type": event_type}
        if subject is not None:
            envelope["subject"] = subject
        named = f"{event_type} {found!r}"
        if not EVENT_TYPE.fullmatch(event_type):
            raise InvalidWrite(
                f"{named} could be selected by no queue: name its type {EVENT_TYPE_RULE}"
            )
        if taken := sorted({*envelope, "data"} & {*attributes}):
            raise InvalidWrite(f"{named} has these twice, remove them: attributes={taken}")
        try:
            made = draft(event_type, data, subject, grouped_by=grouped_by)
            content = {"data": made.data} if dataref is None else {DATAREF: dataref}
            body = body_of({**envelope, **attributes, **content})
        except (InvalidWrite, TooLarge) as error:
            raise type(error)(f"{named}: {error}") from None
        return OutgoingEvent(found, self.source, event_type, body, made.group)

    def publish(self, events: Iterable[OutgoingEvent]) -> None:
        """Publish events in batches; return when the topic has taken each of them.

        Entries that fail are repeated. On a FIFO topic, the events of a message group are sent one
        after the other, and an event that the topic refuses keeps the later ones of its group back.

        Raises:
            InvalidWrite: the source of an event is that of a consumer, or an event for a FIFO topic
                has no message group. No event was published.
            NotPublished: some are not known to be published.
        """
        left = [*events]
        is_fifo = self.topic_arn.endswith(".fifo")
        for event in left:
            if is_fifo and event.group is None:
                raise InvalidWrite(
                    f"{_name(event)} has no message group, which a FIFO topic needs: make it with "
                    "grouped_by=, the field that the consumer names in ordered_by="
                )
            if event.source.startswith(SOURCE_PREFIX):
                raise InvalidWrite(
                    f"{_name(event)} has a source under {SOURCE_PREFIX}, and those are of "
                    "consumers: publish it with another source"
                )
        types = {event.type for event in left} if is_fifo else ()
        publisher = Publisher(self.sns, self.topic_arn, self.topic_arn, types)
        ended: dict[OutgoingEvent, Unpublished] = {}
        attempt = 0  # since the topic took an event
        while going := [event for event in publisher.next_of(left) if event not in ended]:
            before, failures = len(left), publisher.publish(going)
            left = remaining(left, going, failures)
            attempt = 0 if len(left) < before else attempt + 1
            for each in failures:
                # The SDK has repeated a call that failed as a whole.
                if each.permanent or each.cause is not None or attempt == _ATTEMPTS:
                    ended[each.event] = each
            if any(each.event not in ended for each in failures):
                self.sleep(full_jitter(attempt, base=0.2, cap=10))
        if left:
            cause = next((each.cause for each in ended.values() if each.cause is not None), None)
            raise NotPublished(left, ended.values()) from cause


def _name(event: OutgoingEvent) -> str:
    return f"{event.type} {event.id!r}"
