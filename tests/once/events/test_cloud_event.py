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


def each(values: list[Any], *names: str) -> list[dict[str, Any]]:
    """Changes of one attribute to one value."""
    return [{name: value} for name in names for value in values]


VERSIONS = ["0.3", "1", "1.0.0", "1.1", "2.0", " 1.0"]
OTHER_CONTENT = ["text/plain", "application/xml", "application/jsonx", "json"]
JSON_CONTENT = [
    "application/json",
    "Application/JSON; charset=utf-8",
    " text/json ;x=y",
    "a/b+json",
]
FAULTS = {
    "not a CloudEvent: ": [
        *each([1, 1.5, True, ["e"], {"e": 1}], "id", "source", "type", "specversion"),
        *each([MISSING, None], "type", "specversion"),
        *each([1, True, ["x"], {}], "subject", "time", "datacontenttype", "dataschema"),
    ],
    "specversion is not 1.0": each([*VERSIONS, "", " "], "specversion"),
    "type is blank": each(["", " "], "type"),
    "send the data as JSON in `data`": each(["aGk=", None, ""], "data_base64"),
    "datacontenttype is not JSON": each(OTHER_CONTENT, "datacontenttype"),
}


@pytest.mark.parametrize(
    ("changes", "error"), [(one, error) for error, some in FAULTS.items() for one in some]
)
def test_an_attribute_that_does_not_fit_makes_an_event_invalid(
    changes: dict[str, Any], error: str
) -> None:
    with pytest.raises(InvalidEvent, match=error):
        read(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        *each([None], "subject", "time", "datacontenttype", "dataschema"),
        *each([None, "text", 5, True, [1], {"deep": {"er": [None]}}], "data"),
        *each(JSON_CONTENT, "datacontenttype"),
    ],
)
def test_an_optional_attribute_may_be_null_and_data_is_any_json(changes: dict[str, Any]) -> None:
    assert read(**changes).data == changes.get("data", {"name": "a"})
    assert read(data=MISSING).data is None


@pytest.mark.parametrize("body", ["[]", '"event"', "5", "true", "null"])
def test_a_body_of_another_json_type_is_no_event(body: str) -> None:
    with pytest.raises(InvalidEvent, match="an event is an object"):
        read_event(body, max_bytes=1000)


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
