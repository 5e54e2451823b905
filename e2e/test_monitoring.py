"""The chart's own test."""

from __future__ import annotations

import stage
from stage import Stage


def test_helm_test(scene: Stage) -> None:
    """`helm test` finds the operator well, with a pod that the restricted standard lets in."""
    scene.system.helm("test", stage.RELEASE, "--timeout", "150s")
