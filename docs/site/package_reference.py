"""Package reference: a directive of autodoc for each public name of a package.

The names of `once` and `once.cdk` load on first use, so that `automodule` does not see them.
"""

from importlib import import_module


def reference(package: str) -> str:
    """Return reStructuredText, within Markdown, that shows each name in a package's `__all__`.

    Constants are left out, and names that `once` has too.
    """
    left_out = set() if package == "once" else set(import_module("once").__all__)
    shown = {name for name in import_module(package).__all__ if not name.isupper()} - left_out
    names = sorted(shown, key=str.lower)
    directives = [f".. {_directive(package, name)}:: {package}.{name}\n" for name in names]
    return "\n".join(["```{eval-rst}", *directives, "```"])


def _directive(package: str, name: str) -> str:
    """Return the directive for a name; by its form, because to import the CDK takes seconds."""
    if name[0].isupper():
        return "autoclass"
    is_value = package == "once" and not callable(getattr(import_module(package), name))
    return "autodata" if is_value else "autofunction"
