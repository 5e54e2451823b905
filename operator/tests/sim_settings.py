"""The settings that a simulated driver starts with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binshift.settings import resolve
from binshift_operator.model.driver_settings import MAX_EPOCH_CONF


def settings_of(objects: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of a driver that starts now, by the configuration that is mounted."""
    texts = [each["data"]["spark-defaults.conf"] for (kind, _, _), each in objects.items() if kind == "ConfigMap"]
    lines = [line.partition(" ") for text in texts for line in text.splitlines()]
    return {"maxEpochSeconds": resolve({key: value for key, _, value in lines if key == MAX_EPOCH_CONF}).max_epoch}
