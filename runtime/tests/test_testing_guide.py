"""The examples of the guide for tests of processors, unchanged."""

from __future__ import annotations

import guide_code
import pytest

EXAMPLES = guide_code.functions("test-processors.md")


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.startswith("test_")])
def test_the_guides_example(name: str) -> None:
    """It passes."""
    EXAMPLES[name]()
