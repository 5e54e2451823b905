"""The settings of a driver that change while it runs: in the spec, in `sparkConf`, and as the driver reports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from binshift.errors import InvalidSettings
from binshift.settings import resolve
from binshift_operator.model.quantities import duration

MAX_EPOCH_CONF: Final = "spark.binshift.maxEpoch"
"""A key of `sparkConf` that is live, too; it takes precedence over `maxEpoch`, as every key does."""


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """Settings of a driver that change while it runs; durations in seconds.

    Attributes:
        max_epoch_seconds: how long an epoch should take at most; None: no bound.
    """

    max_epoch_seconds: float | None = None


DEFAULT_SETTINGS: Final = DriverSettings()


def parse_settings(spec: Mapping[str, Any]) -> DriverSettings:
    """The settings of a spec.

    Raises:
        ValueError: one is invalid.
    """
    given = {key: str(each) for key, each in (spec.get("sparkConf") or {}).items() if _is_max_epoch(key)}
    if not given:
        return DriverSettings(duration(spec["maxEpoch"]) if "maxEpoch" in spec else None)
    try:
        return DriverSettings(resolve(given).max_epoch)
    except InvalidSettings as error:
        raise ValueError(f"sparkConf: {error}") from error


def without_settings(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The spec without the live keys of its `sparkConf`."""
    conf = spec.get("sparkConf")
    if not isinstance(conf, Mapping) or not any(map(_is_max_epoch, conf)):
        return spec
    return {**spec, "sparkConf": {key: each for key, each in conf.items() if not _is_max_epoch(key)}}


def _is_max_epoch(key: str) -> bool:
    """The runtime's settings are found in any case."""
    return key.lower() == MAX_EPOCH_CONF.lower()
