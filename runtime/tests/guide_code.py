"""The Python code of a guide, to be run unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"


def functions(guide: str) -> dict[str, Any]:
    """The names that a guide's code defines."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (GUIDES / guide).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    defined: dict[str, Any] = {}
    for block in blocks:
        code = compile(block, guide, "exec")
        if "def " in block:
            exec(code, defined)  # noqa: S102 - it is our own, and this is what it is for
    return defined
