"""The cost of a log on S3: its requests, counted at the server, follow a formula of workers and bins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest
from log_s3 import BUCKET, credentials
from s3_faults import Proxy, faulty_s3, unwatched

from binshift.engine.snapshots import SLICES
from binshift.log.storage.opening import open_storage
from simulator import SimulatedCluster, Totals, Tuning

CYCLE_EPOCHS = 2 * SLICES
NEVER = 10**6


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    """A server behind a counting proxy."""
    with credentials(), faulty_s3() as found:
        yield found


def deltas(workers: int, bins: int) -> int:
    """Files per epoch: each worker that owns a bin writes one, if every bin changes."""
    return min(workers, bins)


def snapshots(workers: int, bins: int) -> int:
    """Files per cycle, at most: each worker writes its bins in slices of about equal bytes, with at least one bin."""
    shares = [bins // workers + (worker < bins % workers) for worker in range(workers)]
    return sum(min(SLICES, share) for share in shares)


def requests(workers: int, bins: int, epochs: int) -> Counter[str]:
    """The formula: the number of requests in ``epochs`` calm epochs, without the snapshots."""
    return Counter(
        {
            "PUT records": epochs,  # create if absent: the commit record
            "HEAD terms": epochs,  # is there a newer driver?
            "PUT deltas": epochs * deltas(workers, bins),
        }
    )


@pytest.mark.parametrize("bins", [1, 64])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_requests_follow_the_formula(workers: int, bins: int, proxy: Proxy) -> None:
    """An epoch costs a record, a check for newer drivers and a delta per worker; a cycle its slices; nothing is per bin."""
    files = open_storage(f"s3://{BUCKET}/{uuid4().hex}", proxy.options)
    tuning = Tuning(
        snapshot_cycle_epochs=CYCLE_EPOCHS, manifest_every_epochs=NEVER, collect_every_epochs=NEVER, rows_at_once=NEVER
    )
    cluster = SimulatedCluster(Totals(), bins=bins, workers=workers, slots=workers, files=files, tuning=tuning)
    unwatched(cluster)
    rows = [{"key": f"k{number}", "value": number} for number in range(8 * bins)]
    for _ in range(CYCLE_EPOCHS):
        cluster.epoch(rows)
        cluster.background()
    proxy.count()
    for _ in range(CYCLE_EPOCHS):
        cluster.epoch(rows)
        cluster.background()
    found = proxy.count()
    assert min(workers, bins) <= found.pop("PUT snapshots") <= snapshots(workers, bins)
    assert found == requests(workers, bins, CYCLE_EPOCHS)
