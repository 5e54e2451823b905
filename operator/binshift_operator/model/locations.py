"""Where checkpoints and snapshots are, as driver and executors address them: a path in their pods, or a Hadoop URL."""

from __future__ import annotations

from typing import Final

from binshift_operator.model.specification import Dataflow

CLAIM_DIRECTORY: Final = "/checkpoint"
"""Where the checkpoint's claim is mounted in the pods."""
SNAPSHOTS_SUFFIX: Final = "-snapshots"
UID_CHARACTERS: Final = 8
"""Of a dataflow's UID in the path of its snapshots: enough for the dataflows of one namespace in several clusters."""


def hadoop_url(location: str) -> str:
    """A location in the spelling of Hadoop.

    >>> hadoop_url("s3://bucket/a"), hadoop_url("/checkpoint/a")
    ('s3a://bucket/a', '/checkpoint/a')
    """
    scheme, separator, rest = location.partition("://")
    return f"s3a://{rest}" if separator and scheme == "s3" else location


def checkpoint_directory(dataflow: Dataflow) -> str:
    """The checkpointLocation for the program: a path on the claim, or a location as a Hadoop URL."""
    kept = dataflow.checkpoint
    return f"{CLAIM_DIRECTORY}/{kept.path}" if kept.location is None else hadoop_url(kept.location)


def snapshot_location(dataflow: Dataflow, name: str, given: str | None) -> str:
    """The location of a snapshot: as given, or a directory of its name in the dataflow's place for snapshots.

    Dataflows of other namespaces and clusters can have the same ``snapshots.location`` and names: each has a directory of its own there.

    Raises:
        ValueError: there is no place next to the checkpoint, which is a whole bucket.
    """
    if given:
        return hadoop_url(given)
    base = dataflow.snapshots.location if dataflow.snapshots is not None else None
    if base:
        key = dataflow.key
        return f"{hadoop_url(base).rstrip('/')}/{key.namespace}/{key.uid[:UID_CHARACTERS]}/{name}"
    checkpoint = checkpoint_directory(dataflow).rstrip("/")
    if "/" not in checkpoint.partition("://")[2] and "://" in checkpoint:
        raise ValueError(
            f"the checkpoint is the whole bucket {checkpoint}, so no directory is next to it: set spec.location of the snapshot, "
            "or spec.snapshots.location of the dataflow"
        )
    return f"{checkpoint}{SNAPSHOTS_SUFFIX}/{name}"


def claim_of(dataflow: Dataflow, location: str) -> str:
    """The claim that a location is on, if it is the checkpoint's; empty otherwise."""
    on_claim = dataflow.checkpoint.claim is not None and location.startswith(f"{CLAIM_DIRECTORY}/")
    return dataflow.checkpoint.claim or "" if on_claim else ""
