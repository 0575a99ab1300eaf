"""Checks of a consumer's properties against the source code of its handlers.

The event types, key rules and published types are read from the syntax trees of the function's
folder. Nothing is imported: the wheels that the function alone needs are not installed at
synthesis. Each fault states its remedy.
"""

import ast
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

from once.cdk.props import CommandProps, ConsumerProps, named
from once.event_sources import key_rule_fault
from once.settings import Dedup

KeyRule = tuple[str, ...]
"""The name of a constructor of `once.Key`, then its arguments: `("field", "order_id")`."""

_ARGUMENTS = {"event": 0, "content": 0, "attribute": 1}
"""Number of arguments of each constructor but `field`, which takes one or more."""


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A handler's declaration; None for a part that synthesis cannot read."""

    rule: KeyRule | None
    volatile: tuple[str, ...] | None


UNKNOWN = DeclaredKey(None, None)
_Function = tuple[ast.FunctionDef | ast.AsyncFunctionDef, Mapping[str, str]]
"""A function's tree, and the constants of its module."""


class Door(NamedTuple):
    """A call of `Commands.http`: its place, routes, and rule of its scope.

    Routes and rule are None if they are unknown. Without a scope, the rule is empty.
    """

    place: str
    routes: Mapping[str, str] | None
    scope: str | None


class Registrations:
    """The calls of `handles` and `http` in `handler.py` and in the modules that it imports.

    Modules of other folders are not read; those of this one once, when they are first imported.

    Attributes:
        places: file and line of the handler, by event type.
        unread: file and line of each registration whose event type is neither a text nor a
            constant of the folder.
        broken: file, line and error of each file that is no valid Python.
        keys: the key rule of each event type, as far as it can be read.
        doors: the calls of `Commands.http`.
        packages: file and line of the first import of each package from outside the folder.

    Of `Commands.handles`, a command stands for the event type. The function's folder is imported as
    `functions.<name>`.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.places: dict[str, str] = {}
        self.unread: list[str] = []
        self.broken: list[str] = []
        self.keys: dict[str, DeclaredKey] = {}
        self.doors: list[Door] = []
        self.packages: dict[str, str] = {}
        self._folder = folder
        self._package = f"functions.{name}"
        self._constants: dict[Path, dict[str, str]] = {}
        self._functions: dict[str, list[_Function]] = defaultdict(list)
        self._handlers: dict[str, list[_Function]] = defaultdict(list)
        self._shared: list[_Function] = []
        """Functions that run for the events of any handler."""
        self._constants_of(f"{self._package}.handler")

    @property
    def complete(self) -> bool:
        """True if no event type can be missing from `places`."""
        return bool(self.places) and not self.unread and not self.broken

    def published_by(self, event_type: str) -> set[str | None]:
        """Return the types that the handler of an event publishes; None stands for any type."""
        if event_type not in self._handlers:
            return {None}
        waiting = [*self._handlers[event_type], *self._shared]
        seen: set[str] = set()
        found: set[str | None] = set()
        while waiting:
            tree, constants = waiting.pop()
            found.update(_event_type(call, constants) for _, call in _uses("publish", tree))
            nodes = list(ast.walk(tree))
            # Every name in it may be that of a function it calls.
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            for name in (names & self._functions.keys()) - seen:
                seen.add(name)
                waiting += self._functions[name]
        return found

    def _constants_of(self, module: str) -> Mapping[str, str]:
        """Return the texts that a module's names stand for, dotted names too; empty if unknown."""
        if not f"{module}.".startswith(f"{self._package}."):
            return {}
        base = self._folder.joinpath(*module.removeprefix(self._package).split("."))
        path = base / "__init__.py"
        if not path.is_file():
            path = base.with_name(f"{base.name}.py")
            if base == self._folder or not path.is_file():
                return {}
        if path not in self._constants:
            self._constants[path] = {}  # ends the recursion of modules that import each other
            self._read(path)
        return self._constants[path]

    def _read(self, path: Path) -> None:
        place = f"{self._folder.name}/{path.relative_to(self._folder).as_posix()}"
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError) as error:  # ValueError: a null byte, before Python 3.12
            line, reason = getattr(error, "lineno", None) or 1, getattr(error, "msg", error)
            self.broken.append(f"{place}:{line}: {reason}")
            return
        known = self._constants[path]
        package = ".".join([self._package, *path.parent.relative_to(self._folder).parts])
        for node in ast.walk(tree):
            known.update(self._imported(node, package))
        known.update(assigned(tree.body))
        for line, name in _needed_packages(tree.body):
            self.packages.setdefault(name, f"{place}:{line}")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._add_function(node, known)
        self.doors += [
            Door(f"{place}:{line}", *_routes_and_scope(call, known))
            for line, call in _uses("http", tree)
            if call is not None
        ]
        for line, call in _uses("handles", tree):
            event_type = _event_type(call, known)
            if event_type is None:
                self.unread.append(f"{place}:{line}")
                continue
            self.places.setdefault(event_type, f"{place}:{line}")
            declared = _declared_key(call, known)
            # Two handlers of one type, such as one behind an `if`: which one runs is unknown.
            if self.keys.setdefault(event_type, declared) != declared:
                self.keys[event_type] = UNKNOWN

    def _add_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, constants: Mapping[str, str]
    ) -> None:
        function = (node, constants)
        self._functions[node.name].append(function)
        for decorator in node.decorator_list:
            for _, call in _uses("handles", decorator):
                if event_type := _event_type(call, constants):
                    self._handlers[event_type].append(function)
            match decorator:
                case ast.Call(func=ast.Attribute(attr="completes"), args=[ast.Name(effect)]):
                    # As if the effect called it: a handler that performs the effect names it.
                    self._functions[effect].append(function)
                case ast.Call(func=ast.Attribute(attr="rejects" | "completes")):
                    self._shared.append(function)

    def _imported(self, node: ast.AST, package: str) -> Iterator[tuple[str, str]]:
        """Yield the constants that an import brings, by the names that they have there."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _below(alias.asname or alias.name, self._constants_of(alias.name))
        elif isinstance(node, ast.ImportFrom):
            try:
                origin = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # above all packages
                return
            for alias in node.names:
                yield from self._from(origin, alias.name, alias.asname or alias.name)

    def _from(self, origin: str, name: str, local: str) -> Iterator[tuple[str, str]]:
        found = self._constants_of(origin)
        if name == "*":
            yield from found.items()
        yield from _below(local, self._constants_of(f"{origin}.{name}"))
        for known, text in found.items():
            if known == name or known.startswith(f"{name}."):
                yield local + known.removeprefix(name), text


def _routes_and_scope(
    call: ast.Call, constants: Mapping[str, str]
) -> tuple[Mapping[str, str] | None, str | None]:
    given = {word.arg: word.value for word in call.keywords}
    routes, scope = None, given.get("scope")
    match next(iter(call.args), None) or given.get("routes"):
        case ast.Dict(keys, values) if None not in keys:
            sides = [_texts([each for each in side if each], constants) for side in (keys, values)]
            routes = dict(zip(*sides, strict=True)) if all(sides) else None
    match scope:
        case ast.Call(func=ast.Attribute(value=owner, attr=rule)):
            return routes, rule if ast.unparse(owner).rpartition(".")[2] == "Scope" else None
    return routes, "" if scope is None and None not in given else None


def _needed_packages(body: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Yield line and package of each absolute import, but for those in an `if` or a `try`."""
    for node in body:
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name.partition(".")[0]) for alias in names)
            case ast.ImportFrom(module=str() as module, level=0):
                yield node.lineno, module.partition(".")[0]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.With():
                yield from _needed_packages(node.body)


def _below(prefix: str, constants: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"{prefix}.{name}", text) for name, text in constants.items())


def assigned(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and text of each constant; those of a class, such as an enum, are dotted."""
    for node in body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=ast.Constant(str() as text))
                | ast.AnnAssign(target=ast.Name(name), value=ast.Constant(str() as text))
            ):
                yield prefix + name, text
            case ast.ClassDef(name=name):
                yield from assigned(node.body, f"{prefix}{name}.")


def text_of(node: ast.expr, constants: Mapping[str, str]) -> str | None:
    """Return the text that an expression stands for; None if it is unknown."""
    match node:
        case ast.Constant(str() as text):
            return text
    return constants.get(ast.unparse(node).removesuffix(".value"))


def _uses(method: str, tree: ast.AST) -> Iterator[tuple[int, ast.Call | None]]:
    """Yield line and call of each use of a method; None if it is used without a call."""
    nodes = list(ast.walk(tree))
    calls = {node.func: node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == method:
            yield node.lineno, calls.get(node)


def _event_type(call: ast.Call | None, constants: Mapping[str, str]) -> str | None:
    """Return the event type or command: the first argument of a call; None if it is unknown."""
    if call is None:
        return None
    named = (each.value for each in call.keywords if each.arg in {"event_type", "name"})
    argument = next(iter(call.args), None) or next(named, None)
    return None if argument is None else text_of(argument, constants)


def _declared_key(call: ast.Call | None, constants: Mapping[str, str]) -> DeclaredKey:
    """Return the declaration of a call of `Consumer.handles`; `call` is None without a call."""
    if call is None or any(word.arg is None for word in call.keywords):  # `**given`
        return UNKNOWN
    given = {word.arg: word.value for word in call.keywords}
    rule = _rule(given["key"], constants) if "key" in given else ("event",)
    volatile = None
    match given.get("volatile", ast.Tuple([])):
        case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
            volatile = _texts(elts, constants)
    return DeclaredKey(rule, volatile)


def _rule(node: ast.expr, constants: Mapping[str, str]) -> KeyRule | None:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=[]):
            names = _texts(args, constants)
            if names is None or ast.unparse(owner).rpartition(".")[2] != "Key":
                return None
            if _ARGUMENTS.get(name) == len(names) or (name == "field" and names):
                return name, *names
    return None


def _texts(nodes: list[ast.expr], constants: Mapping[str, str]) -> tuple[str, ...] | None:
    found = [text_of(node, constants) for node in nodes]
    known = [text for text in found if text is not None]
    return tuple(known) if len(known) == len(found) else None


_REMEDY = "or dedup=Dedup.RECORD"


def item_dedup_faults(consumer: ConsumerProps, keys: Mapping[str, DeclaredKey]) -> Iterator[str]:
    """Yield the properties and key rules that item dedup cannot commit, each with its remedy.

    `keys` are the declared keys of the event types, as far as synthesis can read them.
    """
    if consumer.dedup is not Dedup.ITEM:
        return
    if consumer.publishes or consumer.has_effects:
        yield (
            "dedup=Dedup.ITEM with events to publish or effects, which need a record; give neither "
            f"publishes= nor effect_timeout_seconds=, {_REMEDY}"
        )
    if len(consumer.tables) != 1:
        yield f"dedup=Dedup.ITEM with {len(consumer.tables)} tables; give it one table, {_REMEDY}"
        return
    [table] = consumer.tables
    for event, key in keys.items():
        if key.rule and (key.rule[0] != "field" or len(key.rule) != 1 + len(table.keys)):
            yield (
                f"dedup=Dedup.ITEM, and the key of {event!r} is not that of an item of "
                f"{table.name!r}; give its handler key=Key.field(…) with one field for each of "
                f"{', '.join(table.keys)}, {_REMEDY}"
            )


def command_handler_faults(commands: CommandProps) -> Iterator[str]:
    """Yield every command, route and scope in which the properties and the code differ.

    Also every file that is no valid Python. Commands without a handler are left out if synthesis
    cannot read all registrations; see `unread_handlers`.
    """
    found, declared = _registrations(commands), commands.settings["commands"]
    if found is None:
        return
    yield from (_BROKEN.format(each) for each in found.broken)
    for command, place in found.places.items():
        if command not in declared:
            yield (
                f"{place} handles {command!r}, which its line does not have; add it to routes= or "
                "commands=, or correct the handler"
            )
    for command in declared if found.complete else ():
        if command not in found.places:
            yield (
                f"it has the command {command!r}, and its folder has no handler for "
                f"it{_meant(command, found.places)}; correct the name, or add a function with "
                f"@api.handles({command!r}, …)"
            )
    for door in found.doors if commands.routes else ():
        if door.routes is not None and door.routes != commands.routes:
            differ = sorted({*door.routes.items()} ^ {*commands.routes.items()})
            shown = ", ".join(f"{route!r}: {command!r}" for route, command in differ)
            yield f"{door.place} and routes= differ in {shown}; give both the same routes"
        if commands.auth and door.scope not in {None, *commands.auth.scopes}:
            scope = f"scope=Scope.{door.scope}()" if door.scope else "no scope="
            fitting = " or ".join(f"Scope.{rule}()" for rule in commands.auth.scopes)
            yield (
                f"{door.place} has {scope}, and auth= is Auth.{commands.auth.kind}(); give it "
                f"{fitting}, which finds the callers that the API has verified"
            )


def _meant(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


UNREAD = "once:unread-handlers"
"""Id of the warning that handlers and properties could not be compared."""
_BROKEN = "{}; the function could not be loaded: correct the file"


def handler_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every event type that only the properties or only the handlers name.

    Also every file that is no valid Python, and with item dedup every key that is not that of an
    item. Types without a handler are left out if synthesis cannot read all registrations; see
    `unread_handlers`.
    """
    found = _registrations(consumer)
    yield from item_dedup_faults(consumer, {} if found is None else found.keys)
    if found is None:
        return
    yield from (_BROKEN.format(each) for each in found.broken)
    for event, place in found.places.items():
        if event not in consumer.event_types:
            yield (
                f"{place} handles {event!r}, which its queue never gets; add the type to external= "
                "or events=, or correct the handler"
            )
    for name in ("external", "events") if found.complete else ():
        for event in dict.fromkeys(getattr(consumer, name)):
            if event not in found.places:
                yield (
                    f"{name} has {event!r}, and its folder has no handler for "
                    f"it{_meant(event, found.places)}; correct the type, or add a function with "
                    f"@consumer.handles({event!r}, …)"
                )


def package_faults(name: str, folder: Path, wheels: Path) -> Iterator[str]:
    """Yield each package that the handler of a folder imports and that is not in its wheels.

    `wheels` is the folder into which the function's locks are installed.
    """
    here = {path.name.partition(".")[0] for path in wheels.iterdir()}
    here |= {*sys.stdlib_module_names, "once", "functions"}
    for package, place in Registrations(folder, name).packages.items():
        if package not in here:
            yield (
                f"{place} imports {package!r}, which is neither among the library's packages nor "
                f"among the function's: write its name into requirements.in of this folder, and "
                f"run `once lock {name}`"
            )


def syntax_faults(folder: Path, name: str) -> Iterator[str]:
    """Yield each file that is no valid Python and that the handler of a folder imports."""
    yield from (_BROKEN.format(each) for each in Registrations(folder, name).broken)


def source_key_faults(consumer: ConsumerProps) -> Iterator[str]:
    """Yield every handler whose key rule cannot identify the events of the consumer's source."""
    found = _registrations(consumer)
    if found is None or consumer.source is None:
        return
    for event, key in found.keys.items():
        fault = key.rule and key_rule_fault(key.rule[0], consumer.source)
        if fault:
            yield f"{found.places[event]} for {event!r} {fault}"


def unread_handlers(line: ConsumerProps | CommandProps) -> str | None:
    """Return the warning for registrations that synthesis cannot read; None if it reads all."""
    found = _registrations(line)
    if found is None or found.complete or found.broken:  # a broken file is a fault
        return None
    if isinstance(line, ConsumerProps):
        decorator, what, wrong = "@consumer.handles", "event types", "type in external= or events="
    else:
        decorator, what, wrong = "@api.handles", "commands", "name in routes= or commands="
    missing = f"no {decorator} in {line.folder}/handler.py or in what it imports there"
    return (
        f"{named(line)}: the {what} of its handlers cannot be read "
        f"({', '.join(found.unread) or missing}), so a wrong {wrong} would be found only by the "
        f"deployed function; give each {decorator}(…) a text or a constant of the same folder, or "
        "acknowledge this warning"
    )


def caused_events(consumer: ConsumerProps) -> dict[str, set[str]]:
    """Return the event types that the handler of each type may publish, as far as it is known.

    A published type that is found in no handler may come from any of them.
    """
    found, declared = _registrations(consumer), {*consumer.publishes}
    read = {
        event: {None} if found is None else found.published_by(event)
        for event in consumer.event_types
    }
    unplaced = declared.difference(*read.values())
    return {
        event: declared if None in types else declared & (types | unplaced)
        for event, types in read.items()
    }


def event_types_output(consumer: ConsumerProps) -> str:
    """Return the value of the output `EVENT_TYPES`: a consumer's event types, and their keys.

    It is one JSON object. `external` and `events` list the types; `keys` holds the key rule of each
    type and `volatile` its volatile fields. `grouped_by` is the field of their message group, or
    null. A key rule that synthesis cannot read is left out, as is an empty list of volatile fields;
    null stands for fields that it cannot read. `source` is that of a consumer which has one. With
    item dedup `item_table` names the table and `item_key` the attributes of its key.
    """
    found = _registrations(consumer)
    declared = {} if found is None else found.keys
    keys = {event: declared[event] for event in consumer.event_types if event in declared}
    on_item = consumer.tables[0] if consumer.dedup is Dedup.ITEM else None
    return json.dumps(
        {
            "external": consumer.external,
            "events": consumer.events,
            "keys": {event: key.rule for event, key in keys.items() if key.rule},
            "volatile": {event: key.volatile for event, key in keys.items() if key.volatile != ()},
            "grouped_by": consumer.grouped_by,
            **({} if consumer.source is None else {"source": consumer.source.to_builtins()}),
            **({"item_table": on_item.name, "item_key": on_item.keys} if on_item else {}),
        }
    )


def _registrations(line: ConsumerProps | CommandProps) -> Registrations | None:
    if line.folder is None or not has_handler(line.folder):
        return None  # a fault of its own
    return Registrations(line.folder, line.name)


def has_handler(folder: Path | None) -> bool:
    """Return whether a function's folder has the module that Lambda loads."""
    return folder is not None and (folder / "handler.py").is_file()
