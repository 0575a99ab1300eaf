"""The options of `redelivery check`, declared once, and the `Subject` that they describe.

Each parser returns what one text means. Its `ValueError` says how to correct the text, and all
mistakes are reported together.
"""

import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from redelivery.faults import Fault
from redelivery.subject import Answer, Subject, SubjectError, Table

TABLE_FORM = "name:key[:sort_key][,ttl=attribute|,no-ttl][,compared|,not-compared]"
ANSWER_FORM = "[METHOD ]URL[=STATUS[:JSON or file]]"

_ANSWER = re.compile(
    r"(?:(?P<method>[A-Za-z]+) +)?(?P<url>https?://\S+?)(?:=(?P<status>\d{3})(?::(?P<body>.*))?)?",
    re.DOTALL,
)
_DURATION = re.compile(r"(\d{1,9})([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class OptionMistakes(Exception):
    """Some options are wrong.

    Attributes:
        mistakes: one sentence each: the option, what is wrong, how to correct it.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


def parse_root(text: str) -> Path:
    """Return a folder's absolute path; raise ValueError if it is none."""
    if not Path(text).is_dir():
        raise ValueError("there is no such folder; give the one with the handler")
    return Path(text).absolute()


def parse_count(text: str) -> int:
    """Return a whole number of at least 1; raise ValueError for other texts."""
    if not text.isdecimal() or not int(text):
        raise ValueError("write a whole number above 0")
    return int(text)


def parse_fault(text: str) -> Fault:
    """Return the fault of this name; raise ValueError if there is none."""
    if text in set(Fault):
        return Fault(text)
    close = get_close_matches(text, list(Fault), n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise ValueError(f"there is no such fault; {suggestion}`redelivery faults` lists them")


def parse_duration(text: str) -> int:
    """Return the seconds of `90`, `90s`, `15m`, `12h` or `14d`; raise ValueError for others."""
    match = _DURATION.fullmatch(text)
    if not match or not int(match[1]):
        raise ValueError("write a number above 0 and a unit, for example 90s, 15m, 12h or 14d")
    return int(match[1]) * _SECONDS[match[2]]


def parse_pair(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`; raise ValueError without a name or equals sign."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError("write NAME=VALUE")
    return name, value


def parse_event(text: str) -> Any:
    """Return a sample: the path of a file, or for `-` the content of standard input.

    Raises:
        ValueError: there is no such file, or standard input is empty.
    """
    if text != "-":
        path = Path(text).absolute()
        if not path.is_file():
            raise ValueError(
                "there is no such file; give a message's body or an SQS event in a file"
            )
        return path
    piped = sys.stdin.read()
    if not piped.strip():
        raise ValueError("standard input is empty; pipe a message's body or an SQS event")
    try:
        return json.loads(piped)
    except ValueError:
        return piped


def parse_answer(text: str) -> Answer:
    """Return an answer: `POST https://pay.example/charges=200:{"id": "ch_1"}`.

    Raises:
        ValueError: the text does not have the form, or its body is neither JSON nor a file.
    """
    match = _ANSWER.fullmatch(text.strip())
    if not match:
        raise ValueError(f"write {ANSWER_FORM}, for example 'POST https://pay.example/charges=200'")
    body = {"body": _body(match["body"])} if match["body"] else {}
    method = (match["method"] or "").upper()
    return Answer(match["url"], int(match["status"] or 200), method=method, **body)


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        content = Path(text).read_bytes()
    except (OSError, ValueError) as error:
        raise ValueError("the text after the status is neither JSON nor a readable file") from error
    try:
        return json.loads(content)
    except ValueError:
        return content


def parse_table(text: str) -> Table:
    """Return a table. `S`, `N` or `B` after an attribute is its type: `days:day:N`.

    Raises:
        ValueError: the text does not have the form.
    """
    keys, *settings = text.split(",")
    name, *parts = keys.split(":")
    attributes: list[str] = []
    for part in parts:
        if part in {"S", "N", "B"} and attributes and ":" not in attributes[-1]:
            attributes[-1] += f":{part}"
        else:
            attributes.append(part)
    if not name or not all(parts) or len(attributes) not in {1, 2}:
        raise ValueError(f"write {TABLE_FORM}, for example orders:order_id")
    options = dict(_setting(setting) for setting in settings)
    key, sort_key = [*attributes, ""][:2]
    return Table(name, key, sort_key, **options)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if text == "no-ttl" or (name == "ttl" and value):
        return ("ttl", value or None)
    if text in {"compared", "not-compared"}:
        return ("compared", text == "compared")
    raise ValueError(f"{text!r} is not ttl=attribute, no-ttl, compared or not-compared")


def parse_items(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return a table's name and its items, read from a file: `stock=stock.json`.

    Raises:
        ValueError: the text does not have the form, or the file holds no list of objects.
    """
    name, _, path = text.partition("=")
    if not name or not path:
        raise ValueError("write table=file.json")
    try:
        # boto3 takes no floats.
        items = json.loads(Path(path).read_text("utf-8"), parse_float=Decimal)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"the file holds no JSON: {error}") from error
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("the file must hold a JSON list of objects, one for each item")
    return name, items


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the command.

    Attributes:
        name: without its dashes.
        help: what it means.
        form: the form of its text; empty for a switch.
        field: of `Subject`; empty if it does not describe one.
        parse: returns what a text means.
        many: whether it may be repeated.
    """

    name: str
    help: str
    form: str = ""
    field: str = ""
    parse: Callable[[str], Any] = str
    many: bool = False


OPTIONS = (
    Option(
        "template",
        "SAM, CloudFormation or synthesized CDK template, or `terraform show -json`: the function, "
        "and what exists.",
        "FILE",
        parse=Path,
    ),
    Option("subject", "A Subject declared in Python.", "module:NAME"),
    Option(
        "event",
        "File with a message's body or an SQS event; - for standard input.",
        "FILE",
        "events",
        parse_event,
        many=True,
    ),
    Option("key", "Field of the body that identifies an event.", "a.b.c", "key"),
    Option("table", "DynamoDB table.", TABLE_FORM, "tables", parse_table, many=True),
    Option(
        "items", "A table's content at the start.", "table=file.json", parse=parse_items, many=True
    ),
    Option("queue", "Another queue.", "NAME", "queues", many=True),
    Option("topic", "SNS topic.", "NAME", "topics", many=True),
    Option("bucket", "S3 bucket.", "NAME", "buckets", many=True),
    Option(
        "answer",
        "Answer to HTTP calls whose URL begins so; others receive 200 and {}.",
        ANSWER_FORM,
        "answers",
        parse_answer,
        many=True,
    ),
    Option("root", "Folder that the function's package is made of.", "FOLDER", "root", parse_root),
    Option(
        "env",
        "Environment variable. In a value, {queue:name}, {source} and {dlq} become queue URLs, and "
        "{topic:name} an ARN.",
        "NAME=VALUE",
        "environment",
        parse_pair,
        many=True,
    ),
    Option("timeout", "Timeout; default 30s.", "DURATION", "timeout_seconds", parse_duration),
    Option("batch-size", "Batch size; default 10.", "N", "batch_size", parse_count),
    Option("no-batch-failures", "The mapping has no ReportBatchItemFailures."),
    Option("fifo", "The source is a FIFO queue.", field="fifo"),
    Option(
        "visibility",
        "Visibility timeout of the source; default 180s.",
        "DURATION",
        "visibility_seconds",
        parse_duration,
    ),
    Option(
        "max-receives",
        "maxReceiveCount of the source; default 5.",
        "N",
        "max_receives",
        parse_count,
    ),
    Option(
        "horizon",
        "Longest time after which a message may arrive again; default 14d.",
        "DURATION",
        "horizon_seconds",
        parse_duration,
    ),
    Option(
        "keep",
        "Package that is imported once for all processes: it holds no state.",
        "PACKAGE",
        "keep",
        many=True,
    ),
    Option("ignore", "Attribute that may differ.", "table.attribute", "ignore", many=True),
    Option(
        "repeatable",
        "Queue, topic, bus or URL whose receivers tolerate a message twice.",
        "NAME",
        "repeatable",
        many=True,
    ),
    Option("skip", "Fault that does not apply.", "FAULT", "skip", parse_fault, many=True),
    Option("only", "Run this fault alone.", "FAULT", parse=parse_fault, many=True),
    Option(
        "seed",
        "Draws values and interleavings; the same seed gives the same report.",
        "N",
        parse=parse_count,
    ),
    Option(
        "deep",
        "Afterwards, draw scenarios with two faults for so long.",
        "DURATION",
        parse=parse_duration,
    ),
    Option("replay", "Run one scenario and tell it step by step.", "SCENARIO"),
    Option("all", "Tell every failing scenario."),
    Option("json", "Print JSON, and nothing else on stdout."),
)


def subject_from(handler: str, given: Mapping[str, Any]) -> tuple[Subject, dict[str, Any]]:
    """Return the subject, and the parsed values of the options that do not describe one.

    Args:
        handler: as Lambda names it; of a template, a name of its function; may be empty.
        given: the texts of each option that was given, by its name; for a switch, True.

    Raises:
        OptionMistakes: some options are wrong.
    """
    mistakes: list[str] = []
    values = {option.name: _parsed(option, given, mistakes) for option in OPTIONS}
    base = _base(handler, given, values["root"], mistakes)
    items = dict(values["items"])
    tables = values["table"]
    names = Counter(table.name for table in tables)
    mistakes += [
        f"--table {name}: declared twice; give all of it in one option"
        for name, times in names.items()
        if times > 1
    ]
    mistakes += [
        f"--items {name}: no such table; declare it with --table {name}:KEY"
        for name in items.keys() - names.keys()
    ]
    if given.get("replay") and given.get("json"):
        mistakes.append("--replay prints the course of one scenario as text: leave out --json")
    if mistakes:
        raise OptionMistakes(mistakes)
    values["env"] = dict(values["env"])
    values["table"] = tuple(replace(t, items=items.get(t.name, ())) for t in tables)
    fields = {
        option.field: values[option.name]
        for option in OPTIONS
        if option.field and given.get(option.name)
    }
    if given.get("no-batch-failures"):
        fields["batch_failures"] = False
    return _with(base, fields), values


def _parsed(option: Option, given: Mapping[str, Any], mistakes: list[str]) -> Any:
    """Return what an option's texts mean; a `ValueError` becomes a mistake."""
    texts = given.get(option.name) or ()
    if not option.form:
        return bool(texts)
    values = []
    for text in texts if option.many else filter(None, [texts]):
        try:
            values.append(option.parse(text))
        except ValueError as error:
            mistakes.append(f"--{option.name} {text!r}: {error}")
    return tuple(values) if option.many else next(iter(values), None)


def _base(
    handler: str, given: Mapping[str, Any], root: Path | None, mistakes: list[str]
) -> Subject:
    """Return the subject of `--template` or `--subject`, or of the handler alone."""
    try:
        if given.get("template"):
            from redelivery.template import subject_of  # it imports the AWS SDK

            return subject_of(Path(given["template"]).absolute(), handler, root)
        if given.get("subject"):
            return _declared(given["subject"])
    except SubjectError as error:
        mistakes.append(str(error))
    else:
        if not given.get("event"):
            mistakes.append("--event: give at least one message: --event events/order.json")
        if not handler:
            mistakes.append("name the handler, or give --template or --subject")
    return Subject(handler, (), root=Path().absolute())


def _declared(name: str) -> Subject:
    """Return a subject that is declared in Python, as `module:NAME`."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SubjectError(f"--subject {name}: {error}. Write it as module:NAME") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    if not isinstance(found, Subject):
        raise SubjectError(f"--subject {name} is no redelivery.Subject")
    return replace(found, root=found.root.absolute())


def _with(base: Subject, fields: Mapping[str, Any]) -> Subject:
    """Return a subject with what options add: a list is longer, another value is replaced."""
    changed: dict[str, Any] = {}
    for name, value in fields.items():
        before = getattr(base, name)
        if name == "events":
            changed[name] = value or before
        elif name == "tables":  # a table that is declared again replaces the other
            named = {table.name: table for table in (*before, *value)}
            changed[name] = tuple(named.values())
        elif isinstance(value, tuple):
            changed[name] = (*before, *value)
        else:
            changed[name] = {**before, **value} if isinstance(value, dict) else value
    return replace(base, **changed)
