"""The command `explain`: pages of the documentation, offline and of this version.

In: a subject, which is the name of a page, of a section of the runbook, or of a command. Out: its
page as Markdown, whose links are subjects too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path, PurePosixPath
from textwrap import indent
from typing import Annotated, Any

import typer

from once.ops import terminal
from once.ops.errors import NotFoundError

RUNBOOK, COMMAND_LINE, REASONS = "runbook", "command-line", "reasons"

_PACKAGED = Path(__file__).with_name("docs")
_FOLDER = _PACKAGED if _PACKAGED.exists() else Path(__file__).parents[2] / "docs"
"""The wheel has the pages beside this module, a checkout in its own folder."""

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
_NOT_SHOWN = re.compile(r"<!--.*?-->\n?|^```mermaid\n.*?^```$\n?|<[^>]*>", re.MULTILINE | re.DOTALL)

app = terminal.command_group()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The page of a subject, as Markdown without HTML, drawings and pictures."""

    subject: str
    text: str
    path: PurePosixPath

    @property
    def title(self) -> str:
        """The first heading."""
        return self.text.lstrip("# ").partition("\n")[0]

    def linked(self, link: Callable[[str, str], str]) -> str:
        """Return the text, with `link(label, subject)` in place of each link to a subject.

        A link to another site stays; one to a file that has no subject is its label alone.
        """
        return _LINK.sub(lambda found: self._link(found, link), self.text)

    def _link(self, found: re.Match[str], link: Callable[[str, str], str]) -> str:
        label, target = found[1], found[2]
        if ":" in target:
            return found[0]
        file, _, anchor = target.partition("#")
        path = _normal(self.path.parent / file) if file else self.path
        name = next((name for name, each in pages().items() if each == path), None)
        if name is None:
            return label
        if anchor and name == RUNBOOK and anchor not in pages():
            return link(label, anchor)
        return link(label, f"{name}#{anchor}" if anchor else name)


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)


@cache
def pages() -> Mapping[str, PurePosixPath]:
    """Return the files of all pages, relative to their folder, by the page's name."""
    files = [*_FOLDER.glob("*.md"), *_FOLDER.glob(f"{REASONS}/*.md")]
    files += _FOLDER.glob("reference/settings.md")
    found = {file.stem: PurePosixPath(file.relative_to(_FOLDER).as_posix()) for file in files}
    return {name: found[name] for name in sorted(found) if name != "index"}


def subjects() -> dict[str, list[str]]:
    """Return the subjects by their kind; sections of pages and commands are left out."""
    reasons = [name for name, path in pages().items() if path.parent.name == REASONS]
    alarms = _section(_text(RUNBOOK), "alarms") or ""
    return {
        "reasons": reasons,
        "alarms": [anchor for level, anchor, _ in _headings(alarms) if level == 3],
        "pages": [name for name in pages() if name not in reasons],
    }


def explanation(subject: str) -> Explanation | None:
    """Return the page of a reason or another page, or a section; None if there is none."""
    name, mark, anchor = subject.partition("#")
    if name in pages() and not mark:
        return Explanation(subject, _text(name), pages()[name])
    if name not in pages():
        name, anchor = RUNBOOK, subject
    text = _section(_text(name), anchor)
    return Explanation(subject, text, pages()[name]) if text else None


def _text(page: str) -> str:
    text = (_FOLDER / pages()[page]).read_text(encoding="utf-8")
    parts = re.split(rf"({_FENCED.pattern}|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    for number, part in enumerate(parts):
        if number % 2 == 0 or part.startswith("```mermaid"):
            parts[number] = _NOT_SHOWN.sub("", _IMAGE.sub(r"\1", part))
    return "".join(parts)


def _headings(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield the level, the anchor, as GitHub makes it, and the place of each heading."""
    hidden = _FENCED.sub(lambda block: " " * len(block[0]), text)
    for found in _HEADING.finditer(hidden):
        anchor = re.sub(r"[^\w -]", "", found[2].lower()).replace(" ", "-")
        yield len(found[1]), anchor, found.start()


def _section(text: str, anchor: str) -> str | None:
    """Return the section of a page with its heading, and with the sections below it."""
    headings = [*_headings(text)]
    for number, (level, name, begin) in enumerate(headings):
        if name == anchor:
            ends = (at for other, _, at in headings[number + 1 :] if other <= level)
            return text[begin : next(ends, len(text))]
    return None


def _of_command(root: Any, words: list[str]) -> Explanation | None:
    """Return the help of a command, with the form of its JSON."""
    name, found = " ".join(["once", *words]), root
    for depth, word in enumerate(words):
        if word not in getattr(found, "commands", {}):
            return None
        found = root.load(word) if depth == 0 else found.commands[word]
    with found.context_class(found, info_name=name, **root.context_settings) as context:
        text = f"# {name}\n\n```text\n{found.get_help(context)}\n```\n"
    more = _section(_text(COMMAND_LINE), name.replace(" ", "-"))
    rest = f"\n## Its JSON\n{more.partition(chr(10))[2]}" if more else ""
    return Explanation(" ".join(words), text + rest, pages()[COMMAND_LINE])


@app.command("explain")
def explain_command(
    context: typer.Context,
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            help="A reason of a dead letter, an alarm, a page or a command; without one, their "
            "names are listed."
        ),
    ] = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Show the page about a reason, an alarm or a command.

    The pages are part of this version and need no network. A section of a page
    is PAGE#SECTION, such as your-service#keys.
    """
    if not subject:
        _show_subjects(as_json)
        return
    name = " ".join(subject)
    root = context.find_root().command
    found = explanation(name.removeprefix("once ")) or _of_command(
        root, [word for word in name.split() if word != "once"]
    )
    if found is None:
        known = [each for names in subjects().values() for each in names]
        near = " or ".join(get_close_matches(name, known, 3)) or "one that `once explain` lists"
        raise NotFoundError(f"no page explains {name!r}: give {near}")
    more: list[str] = []

    def noted(label: str, other: str) -> str:
        if other not in (*more, found.subject):
            more.append(other)
        return label

    text = found.linked(noted)
    if as_json:
        terminal.print_json({"subject": found.subject, "text": text, "more": more})
        return
    from rich.markdown import Markdown  # for this command alone: it takes a while to import

    for number, part in enumerate(_CODE.split(text)):
        if number % 2:  # a line of code is copied: it is not broken
            terminal.console.print(indent(part, " "), soft_wrap=True)
        elif part.strip():
            terminal.console.print(Markdown(part, hyperlinks=False), "")
    if more:
        terminal.console.print(f"\nonce explain also has: {', '.join(more)}")


def _show_subjects(as_json: bool) -> None:
    found = subjects()
    if as_json:
        terminal.print_json({"subjects": found})
        return
    for kind, names in found.items():
        terminal.console.print(f"{kind}: {', '.join(names)}\n")
    terminal.console.print("and each command, such as dlq redrive")
