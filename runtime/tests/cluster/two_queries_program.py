"""A program with two stateful queries, which checks itself: ``program MASTER FOLDER CONF``; ``CONF`` is Spark conf in JSON.

It has an aggregation and a vectorised function, started by two threads at once. Each is rescaled independently while both
run, one is restarted, and at the end the program's target applies to both. Every epoch of both is compared with its
reference.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import totals
from awaiting import awaited
from counted import Outputs, counting
from pyspark.sql import SparkSession

from binshift.control import ControlSettings, Tokens, serve
from binshift.errors import InvalidQuery, InvalidSettings
from binshift.log.tools.inspect import verify
from binshift.spark import conf
from binshift.spark.frontend.writer import StatefulStreamWriter

TOKEN = "two-queries-admin-token"
SECONDS = 150.0
OPENER = build_opener(ProxyHandler({}))
MORE = 3
"""The number of epochs that each step waits for."""


class Program:
    """Both queries, and their outputs."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session, self.folder = session, folder
        self.counts, self.kept = Outputs(), totals.Kept()
        self.control = serve(ControlSettings(tokens=Tokens(TOKEN, None)))

    def start_counts(self, name: str = "counts", folder: str = "counts") -> Any:
        """The aggregation."""
        return self._started(counting(self.session, bins=32, workers=2), name, folder, self.counts)

    def start_totals(self) -> Any:
        """The user function."""
        return self._started(totals.totalling(self.session, totals.summed), "totals", "totals", self.kept)

    def _started(self, writer: StatefulStreamWriter, name: str, folder: str, sink: Callable[..., None]) -> Any:
        writer = writer.queryName(name).foreachBatch(sink)
        writer = writer.trigger(processingTime="0.3 seconds").option("checkpointLocation", str(self.folder / folder))
        query = writer.start()
        self.control.attach(query)
        return query

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The response of the control API."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = Request(self.control.api.url + path, data=data, headers=headers, method=method)
        with OPENER.open(request, timeout=60) as answer:
            return json.loads(answer.read())

    def target(self, path: str, generation: int, workers: list[int]) -> Any:
        """Request workers, as an operator does."""
        return self.request("PUT", path, {"owner": "tester", "generation": generation, "workers": workers})


def both_started(program: Program) -> tuple[Any, Any]:
    """Start both queries by two threads at the same time."""
    found: dict[str, Any] = {}

    def begin(name: str, start: Callable[[], Any]) -> None:
        found[name] = start()

    threads = [
        threading.Thread(target=begin, args=("counts", program.start_counts)),
        threading.Thread(target=begin, args=("totals", program.start_totals)),
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found["counts"], found["totals"]


def go_on(*queries: Any) -> None:
    """Wait until each of them has recorded some more epochs."""
    for last, query in [(query.epoch, query) for query in queries]:
        query.await_epoch(last + MORE, SECONDS)


def check_refusals(program: Program) -> None:
    """Check that invalid starts are rejected before they begin, and affect neither query."""
    with pytest.raises(InvalidSettings, match="3 stateful queries need 6"):
        program.start_counts("third", "third")
    with pytest.raises(InvalidQuery, match="is already running in this application"):
        program.start_counts("again")
    with pytest.raises(InvalidQuery, match="a query named 'totals'"):
        program.start_counts("totals", "other")


def check_api(program: Program) -> None:
    """Each query is addressed by its name; without one, values of both are returned, and the rest is rejected."""
    assert {each["name"] for each in program.request("GET", "/v1/queries")["queries"]} == {"counts", "totals"}
    assert program.request("GET", "/v1/queries/totals/dataflow")["name"] == "totals"
    assert len(program.request("GET", "/v1/queries/counts/bins")["bins"]) == 32
    assert sum(each["bins"] for each in program.request("GET", "/v1/workers")["workers"]) == 64
    for path in ("/v1/bins", "/v1/queries/others/dataflow"):
        with pytest.raises(HTTPError, match="404"):
            program.request("GET", path)
    with OPENER.open(f"{program.control.health.url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    assert {line.partition(" ")[0] for line in lines if line.startswith("binshift_epoch{")} == {
        'binshift_epoch{query="counts"}',
        'binshift_epoch{query="totals"}',
    }, lines


def played(program: Program) -> None:
    """Run all steps."""
    counts, summed = both_started(program)
    go_on(counts, summed)
    check_refusals(program)
    check_api(program)
    counts.rescale(3).wait(SECONDS)
    assert (counts.workers, summed.workers) == ((0, 1, 2), (0, 1))
    go_on(counts, summed)
    program.target("/v1/queries/totals/target", 1, [1, 2])
    awaited(lambda: summed.workers, lambda workers: workers == (1, 2), SECONDS)
    assert counts.workers == (0, 1, 2)
    go_on(counts, summed)
    program.request("POST", "/v1/queries/counts/stop")
    awaited(lambda: counts.isActive, lambda active: not active, SECONDS)
    assert summed.isActive
    go_on(summed)
    thread = threading.Thread(target=lambda: again.append(program.start_counts()))
    again = list[Any]()
    thread.start()
    thread.join()
    counts = again[0]
    go_on(counts, summed)
    # An operator's target for one query of the program applies to all.
    awaited(lambda: counts.workers, lambda workers: workers == (1, 2), SECONDS)
    migration = program.target("/v1/target", 2, [0, 1])["migration"]
    awaited(
        lambda: program.request("GET", f"/v1/migrations/{migration['id']}"),
        lambda seen: seen["phase"] == "settled",
        SECONDS,
    )
    assert (counts.workers, summed.workers) == ((0, 1), (0, 1))
    awaited(lambda: program.request("GET", "/v1/dataflow")["target"], lambda target: target["settled"], SECONDS)
    go_on(counts, summed)
    program.request("POST", "/v1/stop")
    awaited(lambda: counts.isActive or summed.isActive, lambda active: not active, SECONDS)
    program.counts.check(counts.epoch, "counts")
    assert [program.kept.epochs[epoch] for epoch in range(summed.epoch + 1)] == list(totals.answers(summed.epoch + 1))
    for each in ("counts", "totals"):
        assert verify(str(program.folder / each / "binshift")) == []


def main(master: str, folder: str, settings: str) -> None:
    """Run it; any error is raised."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("two queries")
    for key, value in (conf.required() | json.loads(settings)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    program = Program(session, Path(folder))
    status = 1
    try:
        with program.control:
            played(program)
        status = 0
    except BaseException:  # printed here, because nothing is printed after `os._exit`
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # do not wait for queries that may still run


if __name__ == "__main__":
    main(*sys.argv[1:])
