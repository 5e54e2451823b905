"""The page of the Python API: directives for mkdocstrings, a section for each public module."""

from __future__ import annotations

from importlib import import_module
from typing import Final

MODULES: Final = ("binshift", "binshift.testing", "binshift.local", "binshift.control", "binshift.errors")
"""The public modules, and the errors that they raise (docs/compatibility.md)."""
CREATED: Final = ("binshift",)
"""Modules whose objects users get and do not make: their constructors are not shown."""


def page() -> str:
    """The page."""
    sections = "\n".join(_section(name) for name in MODULES)
    return f"""# Python API

Generated from docstrings. [Compatibility](../compatibility.md) has the rules for changes; all other modules are internal.

{sections}"""


def _section(name: str) -> str:
    names = getattr(import_module(name), "__all__", None)
    listed = "" if names is None else "        members:\n" + "".join(f"          - {each}\n" for each in names)
    merged = str(name not in CREATED).lower()
    options = f"        heading_level: 2\n        show_root_heading: false\n        merge_init_into_class: {merged}\n"
    return f"## {name}\n\n::: {name}\n    options:\n{options}{listed}"
