"""Writes what a lock file contains as a CycloneDX document: the packages of the index that an image gets, and which needs which.

It lists Python packages only. The jars in Spark's package, the Debian packages of an image and its base image are not in a lock file.
The document is the same for the same lock file and commit.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any

_ENTRY = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;]+)(?P<rest>.*?)(?=^[a-z0-9]|\Z)", re.M | re.S)
_VIA = re.compile(r"^ +# (?:via |  )(?P<name>[a-z0-9][a-z0-9._-]*)", re.M)
SPEC_VERSION = "1.6"
OWN = "binshift"


def purl(name: str, version: str) -> str:
    """The name of a package in every such document.

    >>> purl("msgspec", "0.22.0")
    'pkg:pypi/msgspec@0.22.0'
    """
    return f"pkg:pypi/{name}@{version}"


def packages(lock: str) -> dict[str, tuple[str, list[str]]]:
    """By package URL: the name, and the names of the packages that need it.

    >>> packages("a==1 ; m \\\\\\n    --hash=sha256:0\\n    # via binshift (pyproject.toml)\\nb==2\\n    # via\\n    #   a\\n    #   c\\n")
    {'pkg:pypi/a@1': ('a', ['binshift']), 'pkg:pypi/b@2': ('b', ['a', 'c'])}
    """
    return {
        purl(found["name"], found["version"]): (found["name"], sorted(_VIA.findall(found["rest"])))
        for found in _ENTRY.finditer(lock)
    }


def document(lock: str, version: str, extra: str, seconds: int) -> dict[str, Any]:
    """The document of binshift with an extra; ``seconds`` is the time of the commit, since 1970."""
    known = packages(lock)
    own = purl(OWN, version)
    refs: dict[str, list[str]] = {}
    for ref, (name, _) in known.items():
        refs.setdefault(name, []).append(ref)
    needs: dict[str, set[str]] = {own: set(), **{ref: set() for ref in known}}
    for ref, (_, users) in known.items():
        for user in users:
            for each in [own] if user == OWN else refs.get(user, []):
                needs[each].add(ref)
    body: dict[str, Any] = {
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": own, "name": OWN, "version": version, "purl": own},
            "properties": [{"name": "binshift:extra", "value": extra}],
        },
        "components": [
            {"type": "library", "bom-ref": ref, "name": name, "version": ref.rpartition("@")[2], "purl": ref}
            for ref, (name, _) in sorted(known.items())
        ],
        "dependencies": [{"ref": ref, "dependsOn": sorted(found)} for ref, found in sorted(needs.items())],
    }
    return sealed(body)


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """A document with its format and a number that follows from its content."""
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": SPEC_VERSION, "serialNumber": f"urn:uuid:{serial}", "version": 1}
    return head | body


def text(made: dict[str, Any]) -> str:
    """The file.

    Raises:
        ValueError: it does not follow the schema of CycloneDX.
    """
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    written = json.dumps(made, indent=1) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(written)
    if problem is not None:
        raise ValueError(f"the list of packages is no CycloneDX document: {problem}")
    return written
