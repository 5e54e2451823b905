"""`binshift completion SHELL`: a script that completes commands and options, made from the help of every command.

Options are offered after a dash; elsewhere files are, if a command has no fixed choices.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Final

from binshift import cli
from binshift.hosting.display import write

SCRIPT: Final = """\
_binshift() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" choices=
    case "$COMP_CWORD ${{COMP_WORDS[1]}}" in
        "1 "*) choices=" {commands}" ;;
{cases}
    esac
    [[ $word == -* ]] || choices="${{choices%% --*}}"
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -o default -F _binshift binshift"""
PREFIX: Final = {"bash": "", "zsh": "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the script; returns the exit status."""
    parser = argparse.ArgumentParser("binshift completion", description="Print a script for the shell's completion.")
    parser.add_argument("shell", choices=PREFIX, help="for which shell")
    given = parser.parse_args(arguments)
    cases = [f'        *" {name}") choices=" {" ".join(choices(name))}" ;;' for name in cli.COMMANDS]
    write(PREFIX[given.shell] + SCRIPT.format(commands=" ".join(cli.COMMANDS), cases="\n".join(cases)))
    return 0


def choices(command: str) -> list[str]:
    """Options of a command, in the order of its help, and what its first argument can be."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        resolve_name(cli.COMMANDS[command][0])(["--help"])
    text = printed.getvalue()
    first = re.search(r"^positional arguments:\n +\{([a-z,]+)\}", text, re.MULTILINE)
    options = re.findall(r"^ +(?:-\w(?: \w+)?, )?(--[a-z-]+)", text.partition("options:")[2], re.MULTILINE)
    return [*(first[1].split(",") if first else []), *options]
