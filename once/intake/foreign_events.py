"""Foreign events: names an event or an envelope that a function does not read, and the remedy.

A queue may get the envelope of a service that its consumer's line does not declare, and a function
the event of another trigger. The usual error would be about the first field that is missing.
"""

import re
from collections.abc import Callable
from typing import Any

from once.errors import OnceError, WrongTrigger
from once.event_sources import SnsSource, Source

_SERVICE = re.compile("aws:[a-z0-9]{1,20}", re.ASCII)

_LINES = {
    "s3": "source=Source.s3(…)",
    "event_bridge": "source=Source.event_bridge(…)",
    "sns": "source=Source.sns(…)",
    "json": "source=Source.json(type=…) and a key",
    "cloud_event": "no source=",
}
"""The declaration that reads a form."""

_NAMES = {
    "s3": "a notification of S3",
    "event_bridge": "an event of EventBridge",
    "sns": "a notification of SNS in its envelope",
    "json": "a JSON object that is no CloudEvent",
    "cloud_event": "a CloudEvent without an envelope",
}


def wrong_trigger(event: Any, service: str) -> WrongTrigger:
    """Return the error of an invocation with another event than records of a service."""
    names = {"aws:sqs": "an SQS queue", "aws:dynamodb": "a DynamoDB stream"}
    return WrongTrigger(
        f"the function reads batches of {names[service]} ({service}), and was invoked with "
        f"{_trigger(event)}: remove that trigger, or test with an event of {service}"
    )


def _trigger(event: Any) -> str:
    match event:
        case None:
            return "null"
        case {"Records": [{"eventSource": str(name)} | {"EventSource": str(name)}, *_]}:
            return f"records of {name}" if _SERVICE.fullmatch(name) else "records of no AWS service"
        case [{"eventSource": str(name)}, *_] if _SERVICE.fullmatch(name):
            return f"an array of messages of {name}, as EventBridge Pipes sends it"
        case {"eventSource": str(name)} if _SERVICE.fullmatch(name):
            return f"an event of {name}"
        case {"detail-type": _, "detail": _}:
            return _NAMES["event_bridge"]
        case {"requestContext": _}:
            return "an HTTP request (API Gateway, function URL or load balancer)"
        case {"awslogs": _}:
            return "log lines of CloudWatch Logs"
        case {"key1": _}:
            return "the console's test event hello-world"
        case dict():
            return "an object without records" if event else "an empty object"
    return f"a JSON {type(event).__name__}"


def envelope_fault(body: str, source: Source | None, parsed: Callable[[str], Any]) -> str | None:
    """Return the mistake of a body in another envelope than the declared one, with the remedy.

    None if the body has the declared envelope, or none that is known. `parsed` parses a text.
    """
    try:
        tree = parsed(body)
    except OnceError:
        return None
    form, inner = _form(tree), None
    expected = "cloud_event" if source is None else source.kind
    if form == "sns":
        try:
            inner = _form(parsed(tree["Message"]))
        except OnceError:
            inner = "json"
    if form is None or (form == expected and not isinstance(source, SnsSource)):
        return None
    remedy = _remedy(form, inner, source)
    reads = "a CloudEvent without an envelope" if source is None else f"Source.{expected}"
    within = f" (inside it: {_NAMES[inner]})" if inner else ""
    return remedy and (
        f"the body is {_NAMES[form]}{within}, and the consumer reads {reads}: {remedy}"
    )


def _form(tree: Any) -> str | None:
    match tree:
        case {"Type": str(), "TopicArn": str(), "Message": str()}:
            return "sns"
        case {"Records": [{"eventSource": "aws:s3"}, *_]} | {"Event": "s3:TestEvent"}:
            return "s3"
        case {"detail-type": _, "source": _, "detail": _}:
            return "event_bridge"
        case {"specversion": _} | {"source": _, "type": _}:
            return "cloud_event"
        case dict():
            return "json"
    return None


def _remedy(form: str, inner: str | None, source: Source | None) -> str | None:
    declare = "declare {} for the consumer in the CDK app".format
    raw = "raw message delivery of its subscription"
    if isinstance(source, SnsSource):
        if inner in ("s3", "event_bridge"):
            more = f", and turn on {raw}" if inner == "event_bridge" else ""
            return declare(_LINES[inner]) + more
        if form == "sns":
            if source.is_plain is (inner == "json"):
                return None
            return declare("Source.sns(…) " + ("without" if source.is_plain else "with") + " type=")
        return f"turn off {raw}" if form in ("cloud_event", "json") else declare(_LINES[form])
    if inner is None:
        return declare(_LINES[form])
    if inner == ("cloud_event" if source is None else source.kind):
        also = f", or {declare(_LINES['sns'])}" if inner == "cloud_event" else ""
        return f"turn on {raw}{also}"
    match inner:
        case "s3":
            return declare(f"{_LINES['s3']}, which reads it behind a topic too")
        case "event_bridge":
            return f"{declare(_LINES['event_bridge'])}, and turn on {raw}"
        case "json":
            return declare("source=Source.sns(…, type=…) and a key")
    return declare(_LINES["sns"])
