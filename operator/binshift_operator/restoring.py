"""Observes the snapshot that an empty checkpoint is to begin with."""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.decide.restoring import restore_location
from binshift_operator.errors import Forbidden
from binshift_operator.kube import Kube
from binshift_operator.model.names import SNAPSHOT_KIND
from binshift_operator.model.snapshot_spec import RestoreFrom, RestoreProblem
from binshift_operator.model.specification import Dataflow
from binshift_operator.snapshot_codec import parse_snapshot


def with_restore_location(kube: Kube, dataflow: Dataflow) -> tuple[Dataflow, RestoreProblem | None]:
    """The dataflow with the location of the snapshot that it names, or why there is none.

    Raises:
        OperatorError: the API server does not answer, or rejects the request.
    """
    source = dataflow.restore_from
    if source is None or source.location:
        return dataflow, None
    assert source.snapshot
    try:
        found = kube.get(SNAPSHOT_KIND, dataflow.key.namespace, source.snapshot)
    except Forbidden as error:  # a dataflow that runs needs no snapshot
        message = (
            f"StreamingDataflowSnapshot {source.snapshot} (checkpoint.restoreFrom.snapshot) cannot be read: {error}"
        )
        return dataflow, RestoreProblem(message, lasting=True)
    location = restore_location(dataflow, source.snapshot, None if found is None else parse_snapshot(found))
    if isinstance(location, RestoreProblem):
        return dataflow, location
    return replace(dataflow, restore_from=RestoreFrom(location, source.snapshot)), None
