"""The manifests in a guide, by their kind; the end-to-end tests apply the same ones."""

from __future__ import annotations

import re
from typing import Any

import yaml
from guides import text

AUTOSCALERS = "autoscale-with-hpa-and-keda.md"
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def manifests(guide: str) -> dict[str, Any]:
    """The objects by kind; what is none, such as a list of rules, is named ``""``."""
    found = [yaml.safe_load(block) for block in _BLOCK.findall(text(guide))]
    return {each["kind"] if isinstance(each, dict) else "": each for each in found}
