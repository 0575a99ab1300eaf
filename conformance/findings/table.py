"""The table of the page `docs/conformance-findings.md`."""

from collections.abc import Iterable, Mapping
from typing import Any

_HEAD = (
    "| handler | commit | scenarios | found in | faults without a difference |",
    "|---|---|---|---|---|",
)


def table(handlers: Iterable[Mapping[str, Any]]) -> str:
    """Return a Markdown table of outcomes, as `results.document` holds them."""
    return "\n".join([*_HEAD, *map(_row, handlers)]) + "\n"


def _row(handler: Mapping[str, Any]) -> str:
    url = f"https://github.com/{handler['repository']}/blob/{handler['commit']}/{handler['path']}"
    found = {str(finding["fault"]) for finding in handler["findings"]}
    clean = [fault for fault in handler["clean"] if fault not in found]
    cells = (
        f"[{handler['name']}]({url})",
        f"`{handler['commit'][:12]}`",
        f"{handler['failed']} of {handler['fired']}",
        _found(handler["findings"]) or "nothing",
        ", ".join(clean) or "none",
    )
    return f"| {' | '.join(cells)} |"


def _found(findings: Iterable[Mapping[str, Any]]) -> str:
    faults: dict[str, list[str]] = {}
    for finding in findings:
        for kind in finding["kinds"]:
            faults.setdefault(kind, []).append(finding["fault"])
    return "<br>".join(f"**{kind}**: {', '.join(names)}" for kind, names in sorted(faults.items()))
