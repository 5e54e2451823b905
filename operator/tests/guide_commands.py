"""Checks commands of `binshift` and `kubectl binshift` in a guide against their own parsers and help."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from pkgutil import resolve_name

from binshift.cli import COMMANDS
from binshift.hosting.kubectl import plugin


def problems_of_plugin(arguments: Sequence[str]) -> Iterator[str]:
    """What the plugin's parser refuses."""
    refusal = io.StringIO()
    try:
        with contextlib.redirect_stderr(refusal):
            plugin.parser().parse_args(arguments)
    except SystemExit:
        yield refusal.getvalue()


def problems_of_binshift(arguments: Sequence[str]) -> Iterator[str]:
    """Commands and options that the help does not have."""
    if arguments[0] not in COMMANDS:
        yield f"binshift has no command {arguments[0]}"
        return
    help_text = io.StringIO()
    with contextlib.redirect_stdout(help_text), contextlib.suppress(SystemExit):
        resolve_name(COMMANDS[arguments[0]][0])(["--help"])
    for word in arguments[1:]:
        if word.startswith("--") and not re.search(rf"{word.partition('=')[0]}\b", help_text.getvalue()):
            yield f"binshift {arguments[0]} has no {word}"
    choices = re.search(r"\{(\w+(?:,\w+)+)\}\s", help_text.getvalue().partition("\n\n")[0])
    if arguments[0] == "log" and arguments[1] not in re.findall(r"\w+", choices[1] if choices else ""):
        yield f"binshift log has no {arguments[1]}"
