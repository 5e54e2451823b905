"""Every setting of a dataflow, with its unit, its default and the reason; and the sources of its value.

One frozen tree, complete and checked before a query starts: no setting is read from anywhere else. A setting has
one name in two spellings: ``batch_size`` as a keyword of `binshift.writeStream`, ``binshift.batchSize`` as an option of the
writer or as Spark conf. The source closest to the query wins: writer option, then keyword, then Spark conf, then the default.
`spark-submit` drops conf that does not start with ``spark.``, so ``spark.binshift.batchSize`` is accepted as well.

This module only computes: it gets the sources as mappings, and rejects unknown names, since a silently ignored setting is
worse than an error.
"""

from __future__ import annotations

import difflib
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from binshift.errors import InvalidSettings
from binshift.model import BINS_MAX
from binshift.setting_values import Bounds, checked

STRATEGIES: Final = ("AllAtOnce", "Fluid", "Batched", "Optimized")
"""How a plan may be cut into steps."""

OPTION_PREFIX: Final = "binshift."
"""Writer options and Spark conf with this prefix are settings."""

CONF_PREFIXES: Final = ("spark.binshift.", OPTION_PREFIX)
"""The same in Spark conf; the later one wins."""

CHECKPOINT_CONF: Final = "spark.binshift.checkpoint"
"""The location of the log, not a setting of the query: the launcher of the program sets it and the writer reads it."""

ENABLED_CONF: Final = "spark.binshift.enabled"
"""Whether binshift runs the stateful queries of a session in which it is installed; not a setting of the query."""

MIB: Final = 1 << 20
GIB: Final = 1 << 30


def _setting(default: Any, least: float = -math.inf, most: float = math.inf, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"bounds": Bounds(least, most, choices)})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one dataflow.

    Raises:
        InvalidSettings: a value has the wrong type or is out of range; the message has the valid values.

    >>> Settings(batch_size=16).batch_size
    16
    """

    bins: int = _setting(4096, least=1, most=BINS_MAX)
    """Number of bins, a power of two; default 4096. Fixed for the life of a checkpoint: it limits over how many workers the
    state can be spread and how finely it can be moved, and costs little, as a bin is not a task."""

    workers: int | None = _setting(None, least=1)
    """Number of workers of a new query; default none: all that have registered when it starts. A query that continues from a
    checkpoint keeps the workers in its log."""

    adopt: str | None = _setting(None)
    """Checkpoint of a stopped Spark query with whose state a new query begins; default none. It is only read."""

    restore_from: str | None = _setting(None)
    """Location of a snapshot of a dataflow from which a query with an empty checkpoint begins; default none. It is only read. Once the
    checkpoint has a query, the setting has no effect, so that it can stay."""

    strategy: str = _setting("Optimized", choices=STRATEGIES)
    """How a migration is cut into steps: AllAtOnce, Fluid, Batched or Optimized; default Optimized, in whose steps no worker
    sends to two others or receives from two, so that no single link is the bottleneck."""

    batch_size: int = _setting(256, least=1, most=BINS_MAX)
    """Bins per step, for Batched and Optimized; default 256: with pre-copy a flip costs little however many bins it has, so
    that few large steps end a migration soon. Without pre-copy, smaller steps have smaller peaks."""

    pre_copy: bool = _setting(True)
    """Whether state is copied before its flip; default true. If not, the whole bring-up of a step is inside one epoch,
    which is shorter in total and longer for the records of that epoch."""

    latency_target_seconds: float | None = _setting(None, least=0.01)
    """Record latency, in seconds, that a migration tries to stay under; default none: a quarter above that of calm epochs. Copying becomes
    slower above it, and steps smaller and rarer. A higher target ends a migration sooner."""

    max_epoch: float | None = _setting(None, least=0.05)
    """How long an epoch should take at most, in seconds or with a unit (2, "2s", "500ms"); default none. Each epoch then takes no more
    input than the measured cost per row allows, so that a backlog is worked off in epochs of that length, with flips in between.
    Kafka and files can be bounded, and a source whose own limit of rows is set."""

    flips_per_epoch_max: int = _setting(1, least=1)
    """Steps that may flip in one epoch; default 1. More steps end a migration sooner, with a larger peak."""

    steps_inflight_max: int = _setting(4, least=1)
    """Steps that may be copied or wait for their flip at one time; default 4, for slow copies. Each keeps its bins twice."""

    copy_duty: float = _setting(0.2, least=0.01, most=1.0)
    """Share of time, 0.01 to 1, in which a background task works instead of pausing; default 0.2. A migration
    begins with it, and goes faster or slower by the latency that it measures; it is also that of the copy of a snapshot of the dataflow."""

    standby_replicas: int = _setting(0, least=0, most=1)
    """Copies of each bin that other workers keep up to date, 0 or 1, so that they take over at once when an executor is lost; default 0.
    With 1, local stores and their disks hold all state twice, and a background round catches up each second."""

    standing_tasks: bool = _setting(True)
    """Whether epochs run in one lasting task per executor where they can (it needs three task slots); default true. False: as Spark jobs."""

    snapshot_cycle_epochs: int = _setting(64, least=1)
    """Epochs in which every bin is written as a snapshot once; default 64. Shorter chains of deltas make bring-ups faster;
    longer cycles write less. Of more than seven epochs a second only seven count, and at least a quarter of all."""

    undo_bytes_max: int = _setting(128 * MIB, least=0)
    """Largest undo record of one epoch and worker, in bytes; default 128 MiB. A larger epoch writes none; if it runs again, its
    state is rebuilt from the log."""

    epoch_attempts_max: int = _setting(20, least=1)
    """Runs of one epoch before the query fails; default 20, enough for a worker that restarts several times."""

    executor_wait_seconds: float = _setting(60.0, least=0.1)
    """How long a query waits for executors when it starts, and when the last ones are lost, in seconds; default 60, a
    pod's restart."""

    lost_worker_timeout_seconds: float = _setting(30.0, least=1.0)
    """How long an executor may be missing, in seconds, before live workers take over its bins; default 30: longer than a
    restart on the same node, since taking over and moving back cost two bring-ups; epochs wait during this time."""

    store_map_bytes: int = _setting(64 * GIB, least=MIB)
    """Largest local store of one worker, in bytes of address space, not of disk or memory; default 64 GiB. Must fit in
    ``spark.executor.pyspark.memory`` if that is set."""

    manifest_every_epochs: int = _setting(100, least=1)
    """Epochs between two full manifests in the log, counted as for the cycle; default 100. A restart reads one, and later records."""

    log_grace_seconds: float = _setting(600.0, least=1.0)
    """How long a file of the log is kept after its last use, in seconds; default 600, for slow readers; at least 900 if unfinished."""

    store_directory: str | None = _setting(None)
    """Directory for local stores, a cache, on each executor's fast disk; default none: the system's temporary directory."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, _checked(name, value, name))
        if self.bins & (self.bins - 1):
            lower = 1 << (self.bins.bit_length() - 1)
            raise InvalidSettings(f"bins is {self.bins}; it must be a power of two, such as {lower} or {2 * lower}")


def option_of(keyword: str) -> str:
    """The option spelling of a keyword.

    >>> option_of("latency_target_seconds")
    'binshift.latencyTargetSeconds'
    """
    first, *rest = keyword.split("_")
    return OPTION_PREFIX + first + "".join(word.capitalize() for word in rest)


def resolve(
    conf: Mapping[str, str] = types.MappingProxyType({}),
    keywords: Mapping[str, object] = types.MappingProxyType({}),
    options: Mapping[str, str] = types.MappingProxyType({}),
) -> Settings:
    """The settings of a query from all sources.

    Args:
        conf: Spark conf; keys without one of `CONF_PREFIXES` are ignored.
        keywords: of `binshift.writeStream`.
        options: of the writer; keys without `OPTION_PREFIX` are ignored. Keys are case-insensitive, as in Spark.

    Raises:
        InvalidSettings: an unknown name, or a value of the wrong type or out of range, with its source.

    >>> resolve(conf={"binshift.batchSize": "8"}, keywords={"batch_size": 16}).batch_size
    16
    """
    chosen: dict[str, object] = {}
    for prefix in CONF_PREFIXES:
        for key, value in _with_prefix(conf, prefix):
            if key.lower() in (CHECKPOINT_CONF, ENABLED_CONF):
                continue
            name = _known(key[len(prefix) :], f"Spark conf {key!r}", prefix)
            chosen[name] = _checked(name, value, f"Spark conf {key!r}")
    for key, given in keywords.items():
        if key not in _NAMES:
            raise _unknown(f"keyword {key!r} of writeStream()", key, _NAMES)
        chosen[key] = _checked(key, given, f"keyword {key!r} of writeStream()")
    for key, value in _with_prefix(options, OPTION_PREFIX):
        name = _known(key[len(OPTION_PREFIX) :], f"option {key!r}", OPTION_PREFIX)
        chosen[name] = _checked(name, value, f"option {key!r}")
    return Settings(**typing.cast("dict[str, Any]", chosen))


def is_setting(key: str) -> bool:
    """Whether a writer option is one of binshift's.

    >>> is_setting("binshift.preCopy"), is_setting("topic")
    (True, False)
    """
    return key.lower().startswith(OPTION_PREFIX)


def _with_prefix(layer: Mapping[str, str], prefix: str) -> Iterable[tuple[str, str]]:
    return [(key, value) for key, value in layer.items() if key.lower().startswith(prefix)]


def _known(camel: str, place: str, prefix: str) -> str:
    found = _BY_LOWER.get(camel.lower())
    if found is None:
        raise _unknown(place, camel, [option_of(name)[len(OPTION_PREFIX) :] for name in _NAMES], prefix)
    return found


def _unknown(place: str, given: str, names: Iterable[str], prefix: str = "") -> InvalidSettings:
    lower = {name.lower(): prefix + name for name in names}
    close = difflib.get_close_matches(given.lower(), lower, n=1)
    advice = f"did you mean {lower[close[0]]!r}?" if close else f"settings are: {', '.join(sorted(lower.values()))}"
    return InvalidSettings(f"{place} is not a setting; {advice}")


def _checked(name: str, value: object, place: str) -> object:
    """The value in the setting's own type, or `InvalidSettings`."""
    kind, optional = _KINDS[name]
    return None if value is None and optional else checked(kind, value, _BOUNDS[name], place)


def _kind(annotation: Any) -> tuple[type, bool]:
    options = typing.get_args(annotation)
    return (next(o for o in options if o is not types.NoneType), True) if options else (annotation, False)


_NAMES: Final = tuple(each.name for each in fields(Settings))
_BY_LOWER: Final = {option_of(name)[len(OPTION_PREFIX) :].lower(): name for name in _NAMES}
_KINDS: Final = {name: _kind(annotation) for name, annotation in typing.get_type_hints(Settings).items()}
_BOUNDS: Final = {each.name: each.metadata["bounds"] for each in fields(Settings)}
