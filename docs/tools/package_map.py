"""Package map: the imports between packages, as Mermaid graphs in docs/architecture.md.

An arrow is left out where a longer way of arrows leads to the same package.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from docs.tools.marked_block import write

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
BLOCK = "package map"

FOLDERS = ("functions", "stacks", "demo", "emulator", "proof", "benchmarks")
KIT = "conformance"
"""The folder of the conformance kit, whose packages have no parent package."""
LIBRARY_PARTS = ("once.cdk", "once.ops", "once.testing")
BASE = "base"

Graph = dict[str, set[str]]
"""For each node the nodes that it imports."""


def modules(folder: Path, root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield every module below a folder, by its dotted name from the root."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), ast.parse(path.read_text())


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted names that a module imports, lazily or for types alone included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def node_of(name: str, nodes: Iterable[str]) -> str | None:
    """Return the longest node that holds a module or a name of it; None if none does."""
    holding = [node for node in nodes if f"{name}.".startswith(f"{node}.")]
    return max(holding, key=len, default=None)


def folder_graph(root: Path) -> Graph:
    """Return the imports between the top-level folders, the library in its parts."""
    kit = sorted(file.parent for file in (root / KIT).glob("*/__init__.py"))
    nodes = ("once", *LIBRARY_PARTS, *FOLDERS, *(folder.name for folder in kit))
    graph: Graph = {node: set() for node in nodes}
    places = [*((root / folder, root) for folder in ("once", *FOLDERS))]
    places += [(folder, root / KIT) for folder in kit]
    for folder, above in places:
        for module, tree in modules(folder, above):
            _add(graph, module, tree)
    return graph


def library_graph(root: Path) -> Graph:
    """Return the imports between the packages of the library's runtime part.

    Modules beside the packages that import no package are one node, `base`.
    """
    once = root / "once"
    others = {part.removeprefix("once.") for part in LIBRARY_PARTS}
    entries = (path for path in sorted(once.iterdir()) if not path.name.startswith("_"))
    names = [f"once.{path.stem}" for path in entries if path.stem not in others]
    graph: Graph = {name: set() for name in names}
    for module, tree in modules(once, root):
        _add(graph, module, tree)
    return _with_base(graph, once)


def _add(graph: Graph, module: str, tree: ast.Module) -> None:
    node = node_of(module, graph)
    if node is not None:
        found = {node_of(name, graph) for name in imported(tree)}
        graph[node] |= {other for other in found if other is not None and other != node}


def _with_base(graph: Graph, once: Path) -> Graph:
    files = {name for name in graph if not (once / name.removeprefix("once.")).is_dir()}
    base = {name for name in files if not _reach(graph, name) - files}
    merged: Graph = {BASE: set()}
    for name, found in graph.items():
        if name not in base:
            merged[name] = {BASE if other in base else other for other in found}
    return merged


def _reach(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def reduced(graph: Graph) -> Graph:
    """Return the graph without the arrows that a longer way makes superfluous.

    Raises:
        ValueError: packages import one another in a circle.
    """
    reach = {node: _reach(graph, node) for node in graph}
    if circle := sorted(node for node in graph if node in reach[node]):
        raise ValueError(f"a circle of imports: {', '.join(circle)}")
    return {
        node: {other for other in found if not any(other in reach[via] for via in found)}
        for node, found in graph.items()
    }


def mermaid(graph: Graph) -> str:
    """Return a graph as a Mermaid block; each arrow leads to what is imported."""
    arrows = reduced(graph)
    lines = [f'    {_id(node)}["{node}"]' for node in sorted(arrows)]
    lines += [
        f"    {_id(node)} --> {_id(other)}"
        for node in sorted(arrows)
        for other in sorted(arrows[node])
    ]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def _id(node: str) -> str:
    return node.replace(".", "_")


def base_modules(root: Path) -> list[str]:
    """Return the names of the modules that the node `base` stands for."""
    left = library_graph(root)
    files = (root / "once").glob("[!_]*.py")
    return sorted(path.stem for path in files if f"once.{path.stem}" not in left)


def content(root: Path = ROOT) -> str:
    """Return the block of the page."""
    names = ", ".join(f"`{name}`" for name in base_modules(root))
    return "\n\n".join(
        [
            "Top-level folders:",
            mermaid(folder_graph(root)),
            f"The runtime part of `once`; `base` is the modules {names}:",
            mermaid(library_graph(root)),
        ]
    )


def main() -> None:
    """Redraw the map."""
    write(PAGE, BLOCK, content())


if __name__ == "__main__":
    main()
