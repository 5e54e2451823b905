"""Many dataflows and one operator: its requests to the API server when settled, its latency when all others are busy, its memory.

    KUBECONFIG=... .venv/bin/python operator/benchmarks/bench_many.py --dataflows 200

The operator is the real one, in a process of its own with its default limits. API server, etcd and controller manager are real, too, and
have to exist: with the definition, and without operator and scheduler. Pods are marked as running and drivers are simulated
(`paper_pods`), so all of this measures the operator and no stream. Prints figures, asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "operator"), str(ROOT / "operator" / "tests"), str(ROOT / "runtime")]

from crd_cases import S3, changed  # noqa: E402
from paper_world import World  # noqa: E402

from binshift_operator.kube import Kube, ServerConnection  # noqa: E402
from binshift_operator.model.names import KIND  # noqa: E402

HTTP_PORT = 18_099
USED = (
    *("pods", "statefulsets", "secrets", "services", "configmaps", "serviceaccounts", "events", "networkpolicies"),
    *("poddisruptionbudgets", "streamingdataflows", "streamingdataflowsnapshots", "persistentvolumeclaims"),
)
SECONDS_MAX = 900.0
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Bench:
    """The dataflows, and what can be done to them."""

    connection: ServerConnection
    namespace: str
    world: World
    names: Sequence[str]

    @property
    def kube(self) -> Kube:
        return Kube(self.connection)

    def make(self) -> None:
        for name in self.names:
            made = changed(S3) | {"metadata": {"name": name, "namespace": self.namespace}}
            made["spec"] = {**made["spec"], "replicas": 2}
            self.kube.create(made)

    def edit(self, name: str, **spec: Any) -> int:
        found = self.kube.patch(KIND, self.namespace, name, {"spec": spec})
        return int(found["metadata"]["generation"])

    def statuses(self) -> dict[str, tuple[int, dict[str, Any]]]:
        found = self.kube.list(KIND, self.namespace)
        return {each["metadata"]["name"]: (each["metadata"]["generation"], each.get("status") or {}) for each in found}

    def settled(self) -> int:
        return sum(status.get("settledGeneration") == generation for generation, status in self.statuses().values())

    def await_all(self, what: str) -> float:
        """Seconds until all are settled."""
        begun = time.monotonic()
        while (there := self.settled()) < len(self.names):
            if time.monotonic() - begun > SECONDS_MAX:
                raise TimeoutError(f"{what}: {there} of {len(self.names)} are settled")
            time.sleep(1)
        return time.monotonic() - begun

    def reacted(self, name: str, generation: int) -> float:
        """Seconds until an edit was read."""
        begun = time.monotonic()
        while time.monotonic() - begun < SECONDS_MAX:
            status = (self.kube.get(KIND, self.namespace, name) or {}).get("status") or {}
            if status.get("observedGeneration") == generation:
                break
            time.sleep(0.01)
        return time.monotonic() - begun


def requests(connection: ServerConnection) -> dict[str, float]:
    """Requests to the API server so far, by resource and verb; watches are not counted."""
    text = connection("GET", "/metrics", {}, None, "")[1].decode()
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels, _, value = line.removeprefix("apiserver_request_total{").rpartition("} ")
            known = dict(pair.split("=", 1) for pair in labels.replace('"', "").split(",") if "=" in pair)
            if known["resource"] in USED and known["verb"] != "WATCH":
                key = f"{known['verb']} {known['resource']}"
                found[key] = found.get(key, 0.0) + float(value)
    return found


def weight(process: int) -> tuple[float, float]:
    """MiB in memory, and seconds of processor time so far."""
    resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 2**20
    times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return resident, (int(times[11]) + int(times[12])) / TICK


@contextmanager
def operator(namespace: str, address: str, log: Path) -> Iterator[int]:
    """The operator's process."""
    environment = os.environ | {
        "BINSHIFT_NAMESPACES": namespace,
        "BINSHIFT_HTTP_PORT": str(HTTP_PORT),
        "BINSHIFT_CONTROL_ADDRESS": address,
        "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'runtime'}",
    }
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "binshift_operator"], env=environment, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


def at_rest(bench: Bench, process: int, seconds: float) -> dict[str, Any]:
    """A while in which nothing happens."""
    before, (_, cpu) = requests(bench.connection), weight(process)
    begun = time.monotonic()
    time.sleep(seconds)
    minutes = (time.monotonic() - begun) / 60 * len(bench.names)
    after, (resident, cpu_after) = requests(bench.connection), weight(process)
    by = {key: round((value - before.get(key, 0.0)) / minutes, 2) for key, value in after.items()}
    return {
        "requests per dataflow and minute": round(sum(by.values()), 1),
        "of these": {key: value for key, value in sorted(by.items()) if value},
        "operator's share of a core": round((cpu_after - cpu) / seconds, 3),
        "operator's memory, MiB": round(resident),
    }


def one_edit(bench: Bench, times: int) -> dict[str, Any]:
    """Edits of single dataflows while all others wait for executors that never register."""
    bench.world.held = set(bench.names[times:])  # their runtimes see no pod, and commit nothing
    for name in bench.names[times:]:
        bench.edit(name, replicas=3)
    time.sleep(20)
    bench.world.reads.clear()
    took = []
    for name in bench.names[:times]:
        took.append(bench.reacted(name, bench.edit(name, replicas=3)))
        time.sleep(1)
    gaps = bench.world.gaps()
    bench.world.held = set()
    return {
        "busy others": len(bench.names) - times,
        "seconds from edit to first reconciliation, p50": round(statistics.median(took), 3),
        "max": round(max(took), 3),
        "longest time without a reconciliation of one of the others, p50": round(statistics.median(gaps), 1),
        "its max": round(max(gaps), 1),
        "of them never reconciled": len(bench.names) - times - len(gaps),
    }


def storm(bench: Bench, process: int) -> dict[str, Any]:
    """All are restarted at once."""
    begun, wanted = time.monotonic(), {name: bench.edit(name, restartNonce=1) for name in bench.names}
    edited, first = time.monotonic() - begun, dict[str, float]()
    while len(first) < len(bench.names) and time.monotonic() - begun < SECONDS_MAX:
        for name, (_, status) in bench.statuses().items():
            if status.get("observedGeneration") == wanted[name]:
                first.setdefault(name, time.monotonic() - begun)
        time.sleep(0.5)
    bench.await_all("restart of all")
    return {
        "edits took seconds": round(edited, 1),
        "all reconciled after": round(max(first.values()), 1),
        "all in place after": round(time.monotonic() - begun, 1),
        "operator's memory, MiB": round(weight(process)[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataflows", type=int, default=200)
    parser.add_argument(
        "--idle-seconds", type=float, default=90.0, help="longer than the operator's resync, 60 s; 0 leaves it out"
    )
    parser.add_argument("--edits", type=int, default=20, help="single edits to react to")
    parser.add_argument("--log", type=Path, default=Path("bench-many-operator.log"), help="the operator's log")
    given = parser.parse_args()
    connection, namespace = ServerConnection(), f"many-{os.getpid()}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    connection("POST", "/api/v1/namespaces", {}, made, "application/json")
    names = [f"flow-{number:03}" for number in range(given.dataflows)]
    world = World(namespace)
    bench = Bench(connection, namespace, world, names)
    try:
        with world, operator(namespace, world.address, given.log) as process:
            print_figures("made", lambda: {"seconds": round(made_all(bench))})
            if given.idle_seconds:
                print_figures("settled", lambda: at_rest(bench, process, given.idle_seconds))
            print_figures("one edit", lambda: one_edit(bench, given.edits))
            print_figures(
                "all others continue", lambda: {"settled after seconds": round(bench.await_all("after one edit each"))}
            )
            print_figures("restart of all", lambda: storm(bench, process))
            print_figures("violations", lambda: {"count": len(world.violations), "first": world.violations[:3]})
    finally:
        connection("DELETE", f"/api/v1/namespaces/{namespace}", {}, None, "application/json")


def made_all(bench: Bench) -> float:
    begun = time.monotonic()
    bench.make()
    bench.await_all("making all")
    return time.monotonic() - begun


def print_figures(what: str, figures: Callable[[], dict[str, Any]]) -> None:
    print(f"{what}: {json.dumps(figures(), indent=2)}", flush=True)


if __name__ == "__main__":
    main()
