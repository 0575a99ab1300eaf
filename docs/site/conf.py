"""Sphinx configuration of the documentation site: `make docs` writes it to build/site."""

from dataclasses import is_dataclass
from importlib.metadata import version as version_of
from typing import Any

from pygments.lexers.special import TextLexer  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.pycode import ModuleAnalyzer

from docs.site.generated import filled
from docs.site.settings_reference import passed_settings

project = "Once"
author = "the authors of Once"
version = release = version_of("once-consumer")
language = "en"

extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"),
    *("sphinx_copybutton", "sphinx_design"),
]

# The source folder is the root of the repository, so that the links between pages are the same
# on the site and in a checkout.
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = [
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs/*.md", "docs/**/*.md", "conformance/*.md", "conformance/**/*.md", "events/README.md"),
]
exclude_patterns = [
    *(".*", "node_modules", "build", "cdk.out", "reports"),
    *("once", "tests", "functions", "stacks", "demo", "emulator", "proof", "benchmarks"),
]

myst_heading_anchors = 4
"""Headings have the anchors that GitHub gives them."""
myst_links_external_new_tab = False
myst_enable_extensions = ["colon_fence"]
"""sphinx-design's directives, which hold Markdown."""

# Docstrings are plain text with code in single backquotes.
suppress_warnings = ["ref.python"]  # a field named like a builtin type
default_role = "code"
autodoc_typehints = "signature"
# The CDK takes ten seconds to import and to read; signatures name its classes without it.
autodoc_mock_imports = ["aws_cdk", "constructs", "jsii"]
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "Once"
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_permalinks_icon = "#"


_LISTED = ("docs/adr/0", "docs/reasons/")
"""Pages that one page has a table of. In the navigation of all, they take half of a build."""
_ORPHAN = "---\norphan: true\n---\n"


# `s3.IBucket | None` in a signature.
setattr(_MockObject, "__or__", lambda mock, _other: mock)  # noqa: B010

# For a class derived from a mocked one, autodoc would import and tokenise the real module.
for _module in (
    "aws_cdk",
    "constructs",
    *(f"aws_cdk.aws_{name}" for name in ("dynamodb", "logs", "s3")),
):
    ModuleAnalyzer.cache["module", _module] = PycodeError("mocked")


def setup(app: Sphinx) -> None:
    """Fill the generated parts of pages when they are read, and of docstrings."""
    app.connect("autodoc-process-docstring", _before_napoleon, priority=400)
    app.add_lexer("mermaid", TextLexer)  # the diagrams appear as text
    app.connect("source-read", _fill)


def _before_napoleon(
    _app: Sphinx, what: str, _name: str, kind: Any, _options: Any, lines: list[str]
) -> None:
    if what == "attribute":
        lines[:0] = ["..", ""]  # of the first line, it takes the text before a colon for the type
    if isinstance(kind, type) and is_dataclass(kind) and (passed := passed_settings(kind)):
        lines += ["", "Settings of its function, by the same names:", "", *passed, ""]


def _fill(_app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _ORPHAN * docname.startswith(_LISTED) + filled(source[0])
