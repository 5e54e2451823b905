"""The page of the command line: the help of every command of `binshift` and of `kubectl binshift`."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence
from pkgutil import resolve_name
from typing import Any, Final
from unittest import mock

from docs_site.markdown import fenced

from binshift import cli
from binshift.hosting.kubectl import plugin

COLUMNS: Final = "100"
"""The width of the help."""


def page() -> str:
    """The page."""
    own = [_section(f"binshift {name}", shown(resolve_name(home))) for name, (home, _) in cli.COMMANDS.items()]
    parse = plugin.parser().parse_args
    of_plugin = [_section(f"{plugin.PROGRAM} {name}", shown(parse, [name, "--help"])) for name in plugin.COMMANDS]
    return f"""# Command line

Generated from the parsers; `--help` prints the same.

## binshift

{fenced(shown(cli.main))}
{"".join(own)}
## {plugin.PROGRAM}

{fenced(shown(parse))}
{"".join(of_plugin)}"""


def _section(title: str, text: str) -> str:
    return f"### {title}\n\n{fenced(text)}\n"


def shown(command: Callable[[Sequence[str]], Any], arguments: Sequence[str] = ("--help",)) -> str:
    """What a command prints on stdout before it exits."""
    printed = io.StringIO()
    environment = mock.patch.dict(os.environ, {"COLUMNS": COLUMNS})
    with environment, contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        command(list(arguments))
    return printed.getvalue()
