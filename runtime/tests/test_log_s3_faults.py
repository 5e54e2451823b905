"""The log on a faulty S3: the same contents as on a good one, and exactly one of two writers creates a name."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from uuid import uuid4

import pytest
from log_drivers import FORMAT
from log_s3 import BUCKET, credentials
from s3_faults import EVERYWHERE, SILENT, Chance, Fault, Proxy, Request, faulty_s3, unwatched

from binshift.errors import LogFileMissing, StorageUnavailable
from binshift.log.log import Log
from binshift.log.records.terms import read_term
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage
from binshift.log.tools.inspect import verify
from binshift.model import Term
from simulator import SimulatedCluster, Totals
from simulator.flows import Row

TRIES_MAX = 40
NAMES = 12
WRITERS = 4
DRIVERS = 4
EPOCHS = 6

Result = TypeVar("Result")


@pytest.fixture(scope="module")
def s3() -> Iterator[Proxy]:
    """A server behind a proxy; credentials are in the environment meanwhile."""
    with credentials(), faulty_s3() as proxy:
        yield proxy


@pytest.fixture
def proxy(s3: Proxy) -> Iterator[Proxy]:
    """The proxy, without faults before and after."""
    s3.choose = None
    s3.seen.clear()
    yield s3
    s3.choose = None


def place(proxy: Proxy) -> tuple[str, Storage]:
    """An empty log, and its URL."""
    url = f"s3://{BUCKET}/{uuid4().hex}"
    return url, open_storage(url, proxy.options)


def insisted(call: Callable[[], Result]) -> Result:
    """The result of ``call`` once the store answers; binshift retries everything in this way."""
    for _ in range(TRIES_MAX):
        try:
            return call()
        except StorageUnavailable:
            pass
    raise AssertionError(f"no answer in {TRIES_MAX} tries")


def worked(storage: Storage) -> dict[str, object]:
    """Everything a log does with its files; returns the results."""
    results: dict[str, object] = {}
    for number in range(4):
        results[f"created {number}"] = insisted(
            partial(storage.put_if_absent, f"records/{number}", b"mine %d" % number)
        )
        results[f"lost {number}"] = insisted(partial(storage.put_if_absent, f"records/{number}", b"other %d" % number))
        insisted(partial(storage.put, "owner.json", b"beat %d" % number))
        insisted(partial(uploaded, storage, f"deltas/{number}/x", [b"part %d" % number] * 3))
    results["read"] = insisted(partial(storage.get, "records/2"))
    results["ranges"] = insisted(partial(storage.get_ranges, "deltas/1/x", [(0, 4), (6, 12)]))
    results["there"] = [insisted(partial(storage.exists, name)) for name in ("records/3", "records/4")]
    with pytest.raises(LogFileMissing):
        insisted(partial(storage.get, "records/4"))
    results["listed"] = insisted(lambda: list(storage.list("deltas/")))
    insisted(partial(storage.delete, ["deltas/0/x", "deltas/2/x", "deltas/9/x"]))
    return results


def uploaded(storage: Storage, name: str, parts: list[bytes]) -> None:
    """A file in parts, from its beginning."""
    upload = storage.upload(name)
    for part in parts:
        upload.write(part)
    upload.finish()


def contents(storage: Storage) -> Mapping[str, bytes]:
    """All files and their contents."""
    return {each.name: storage.get(each.name) for each in storage.list("")}


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_a_fault_changes_no_file_and_no_answer(fault: Fault, proxy: Proxy) -> None:
    """With any fault in every second request, repeated or not, files and results are those without faults."""
    calm = open_storage(f"memory://{uuid4().hex}")
    wanted = worked(calm)
    _, storage = place(proxy)
    # A client that waits for a response does not retry by itself; one that gets an error does, three times.
    proxy.choose = Chance(fault, 0.5 if fault not in SILENT else 0.2, [fault], lambda _: 1 if fault in SILENT else 5)
    assert worked(storage) == wanted
    assert any(befell is not None for _, befell in proxy.seen)
    proxy.choose = None
    assert contents(storage) == contents(calm)


@pytest.mark.parametrize("fault", sorted(EVERYWHERE - {Fault.SLOW}), ids=lambda fault: fault.name.lower())
def test_who_has_won_is_never_refused(fault: Fault, proxy: Proxy) -> None:
    """A single writer always creates its file, even if each of its first responses is lost and it meets its own file."""
    _, storage = place(proxy)
    for times in range(1, 7 if fault not in SILENT else 3):
        left = [times]

        def first(request: Request, left: list[int] = left) -> Fault | None:
            left[0] -= request.conditional
            return fault if request.conditional and left[0] >= 0 else None

        proxy.choose = first
        name = f"records/{times}"
        assert insisted(partial(storage.put_if_absent, name, b"mine"))
        assert not insisted(partial(storage.put_if_absent, name, b"other"))
        assert storage.get(name) == b"mine"


@pytest.mark.parametrize("seed", range(3))
def test_of_writers_in_trouble_one_wins(seed: int, proxy: Proxy) -> None:
    """Exactly one of several writers of the same name learns that it created it, and its bytes are stored."""
    _, calm = place(proxy)
    faults = (EVERYWHERE | {Fault.CONFLICT}) - {Fault.SILENCE}
    proxy.choose = Chance(f"writers {seed}", 0.5, faults, lambda _: 4)

    def write(me: int) -> list[bool]:
        storage = open_storage(calm.url, proxy.options)
        names = random.Random(f"{seed} {me}").sample(range(NAMES), NAMES)
        won = {n: insisted(partial(storage.put_if_absent, f"records/{n}", f"writer {me}".encode())) for n in names}
        return [won[n] for n in range(NAMES)]

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    proxy.choose = None
    for n in range(NAMES):
        winners = [me for me in range(WRITERS) if won[me][n]]
        assert len(winners) == 1, f"seed {seed}: {winners} all created records/{n}"
        assert calm.get(f"records/{n}") == f"writer {winners[0]}".encode()


def test_drivers_that_open_in_trouble_have_terms_of_their_own(proxy: Proxy) -> None:
    """Drivers that open one log at the same moment take different terms, and each file names its driver."""
    url, calm = place(proxy)
    proxy.choose = Chance("drivers", 0.4, (EVERYWHERE | {Fault.CONFLICT}) - SILENT, lambda _: 4)

    def opened(me: int) -> Term:
        return insisted(lambda: Log.open(url, proxy.options, FORMAT, who=f"driver {me}")).term

    with ThreadPoolExecutor(DRIVERS) as pool:
        terms = list(pool.map(opened, range(DRIVERS)))
    proxy.choose = None
    assert len(set(terms)) == DRIVERS
    assert [read_term(calm, term).who for term in terms] == [f"driver {me}" for me in range(DRIVERS)]


def rows_of(epoch: int) -> list[Row]:
    """The input of an epoch."""
    return [{"key": f"k{value % 23}", "value": value} for value in range(epoch * 40, epoch * 40 + 40)]


def played(cluster: SimulatedCluster) -> SimulatedCluster:
    """A dataflow that is rescaled and restarted."""
    for epoch in range(EPOCHS):
        cluster.epoch(rows_of(epoch))
        cluster.background()
        if epoch == EPOCHS // 3:
            insisted(partial(cluster.rescale, 3, "Batched"))
        if epoch == EPOCHS // 2:
            cluster.restart_driver()
    cluster.settle()
    return cluster


@pytest.mark.parametrize("seed", range(2))
def test_a_dataflow_does_not_notice(seed: int, proxy: Proxy) -> None:
    """Epochs, snapshots, moves and a restart on a faulty S3 have the usual results, and every bin can be rebuilt."""
    wanted = played(SimulatedCluster(Totals(), seed=seed))
    url, storage = place(proxy)
    # Writes fail more often than the client repeats them: then the epoch runs again.
    faults = (EVERYWHERE | {Fault.CONFLICT}) - SILENT - {Fault.DONE_CUT}
    proxy.choose = Chance(f"dataflow {seed}", 0.2, faults, lambda each: 6 if each.method == "PUT" else 1)
    found = played(unwatched(SimulatedCluster(Totals(), seed=seed, files=storage)))
    met = [befell for _, befell in proxy.seen if befell is not None]
    proxy.choose = None
    assert len(met) > EPOCHS
    assert {e: ordered(rows["totals"]) for e, rows in list(found.outputs.items())[:EPOCHS]} == {
        e: ordered(rows["totals"]) for e, rows in list(wanted.outputs.items())[:EPOCHS]
    }
    assert verify(url, proxy.options) == []


def ordered(rows: object) -> list[str]:
    """Rows in an order that does not depend on the order of tasks."""
    assert isinstance(rows, list | tuple)
    return sorted(map(str, rows))
