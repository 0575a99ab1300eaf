"""The CloudEvents envelope: the values of each attribute that are read, and those refused."""

import json
from typing import Any

import pytest

from once.errors import InvalidEvent, NoKey, TooLarge
from once.events.cloud_event import CloudEvent, read_event
from once.testing import cloud_event

MISSING = object()
EVENT = cloud_event("noted", {"name": "a"}, event_id="e", source="/s")


def read(**changes: Any) -> CloudEvent:
    envelope = {name: value for name, value in (EVENT | changes).items() if value is not MISSING}
    return read_event(json.dumps(envelope), max_bytes=1000)


def test_an_event_is_read_with_all_its_attributes() -> None:
    event = read(subject="x", time="2026-01-01T00:00:00Z", dataschema="/d", traceparent="00-1")
    assert event == CloudEvent(
        id="e",
        source="/s",
        type="noted",
        subject="x",
        time="2026-01-01T00:00:00Z",
        data={"name": "a"},
        extensions={"traceparent": "00-1"},
    )


@pytest.mark.parametrize("name", ["id", "source"])
@pytest.mark.parametrize("value", [MISSING, None, "", " \t", "\u3000"])
def test_an_event_without_identity_has_no_key(name: str, value: Any) -> None:
    remedy = f"no {name}: the producer must set one, and keep it on retry"
    with pytest.raises(NoKey, match=remedy):
        read(**{name: value})


def faults(values: list[Any], *names: str) -> list[dict[str, Any]]:
    return [{name: value} for name in names for value in values]


@pytest.mark.parametrize(
    "fault",
    [
        *faults([1, 1.5, True, ["e"], {"e": 1}], "id", "source", "type", "specversion"),
        *faults([MISSING, None, "", " "], "type", "specversion"),
        *faults([1, True, ["x"], {}], "subject", "time", "datacontenttype", "dataschema"),
        *faults(["text/plain", "application/xml", "application/jsonx", "json"], "datacontenttype"),
    ],
)
def test_an_attribute_that_does_not_fit_makes_an_event_invalid(fault: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        read(**fault)


@pytest.mark.parametrize("version", ["0.3", "1", "1.0.0", "1.1", "2.0", " 1.0"])
def test_another_version_of_the_envelope_is_refused(version: str) -> None:
    with pytest.raises(InvalidEvent, match="specversion"):
        read(specversion=version)


@pytest.mark.parametrize("name", ["subject", "time", "datacontenttype", "dataschema", "data"])
def test_an_optional_attribute_may_be_null(name: str) -> None:
    assert read(**{name: None}).id == "e"


@pytest.mark.parametrize("data", [MISSING, "text", 5, True, [1], {"deep": {"er": [None]}}])
def test_data_is_any_json_value_or_missing(data: Any) -> None:
    assert read(data=data).data == (None if data is MISSING else data)


@pytest.mark.parametrize("body", ["[]", '"event"', "5", "true", "null"])
def test_a_body_of_another_json_type_is_no_event(body: str) -> None:
    with pytest.raises(InvalidEvent, match="an event is an object"):
        read_event(body, max_bytes=1000)


@pytest.mark.parametrize("value", ["aGk=", None, ""])
def test_data_in_base64_is_refused_with_the_remedy(value: Any) -> None:
    with pytest.raises(InvalidEvent, match="send the data as JSON in `data`"):
        read(data_base64=value)


@pytest.mark.parametrize(
    "content",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        " text/json ;x=y",
        "application/vnd.shop+json",
    ],
)
def test_a_json_content_type_is_read(content: str) -> None:
    assert read(datacontenttype=content).data == {"name": "a"}


@pytest.mark.parametrize("value", ["x", 1, True])
def test_extensions_are_kept_unchanged_and_by_event(value: Any) -> None:
    extensions = {"tenant": value, "specialversion": "9"}
    assert read(**extensions).extensions == extensions
    assert read().extensions == {}


def test_a_body_over_the_limit_is_too_large() -> None:
    body = json.dumps(EVENT)
    assert read_event(body, max_bytes=len(body)).id == "e"
    with pytest.raises(TooLarge):
        read_event(body, max_bytes=len(body) - 1)
