"""`binshift init FOLDER`: a program, its test, its image's Dockerfile and its StreamingDataflow, to begin with.

The files are templates of this package with one variable, the name. Existing files are never overwritten.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from binshift.errors import InvalidSettings
from binshift.hosting.display import write

FILES: Final = ("program.py", "test_program.py", "Dockerfile", "dataflow.yaml")
NAME_LENGTH_MAX: Final = 40
"""The names of a dataflow's pods and Services are longer than its own, and end at 63 characters."""

NEXT: Final = """\
wrote {files} to {folder}

on this machine:
{enter}    binshift run program.py --workers 2 -- results
    binshift scale 4 --wait        # from another shell

in a cluster with the operator, whose nodes have the image (docs/building-images.md makes its base):
    docker build -t localhost/{name}:dev {folder}
    kubectl apply -f {folder}/dataflow.yaml
    kubectl scale sdf/{name} --replicas=4"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files; returns the exit status."""
    parser = argparse.ArgumentParser(
        "binshift init",
        description="Write a program, its test, a Dockerfile and a StreamingDataflow to start from.",
        epilog="If one of the files exists, nothing is written.",
    )
    parser.add_argument("folder", type=Path, help="the folder; created if it does not exist")
    parser.add_argument("--name", help="of query, dataflow and image (default: the folder's name)")
    given = parser.parse_args(arguments)
    name = given.name or given.folder.resolve().name
    create(given.folder, name)
    enter = f"    cd {given.folder}\n" if given.folder.resolve() != Path.cwd() else ""
    write(NEXT.format(files=", ".join(FILES), folder=given.folder, name=name, enter=enter))
    return 0


def create(folder: Path, name: str) -> None:
    """Write the files for a dataflow ``name``.

    Raises:
        InvalidSettings: Kubernetes does not accept the name, or one of the files exists; nothing is written.
    """
    if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name) or len(name) > NAME_LENGTH_MAX:
        raise InvalidSettings(
            f"{name!r} cannot be the name of a dataflow: Kubernetes needs lower-case letters, digits and '-', "
            f"from a letter to a letter or digit, here at most {NAME_LENGTH_MAX} characters; set one with --name"
        )
    if present := [file for file in FILES if (folder / file).exists()]:
        raise InvalidSettings(f"{folder / present[0]} exists and is not overwritten; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        text = (files("binshift.hosting.local") / "template" / f"{file}.txt").read_text(encoding="utf-8")
        (folder / file).write_text(Template(text).substitute(name=name), encoding="utf-8")
