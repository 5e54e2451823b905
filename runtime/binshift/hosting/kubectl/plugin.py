"""The commands of `kubectl binshift`. ``rebalance`` edits the dataflow, so that the operator carries it out; ``drain`` and
``cancel`` are requests to the driver.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console

from binshift import __version__
from binshift.errors import NoSuchMigration
from binshift.hosting.client import ControlClient
from binshift.hosting.display import (
    as_json,
    columns,
    dataflow_facts,
    known,
    print_bins,
    print_facts,
    print_migration,
    print_migrations,
    shown_migrations,
    speed_facts,
    write,
)
from binshift.hosting.exits import exit_status
from binshift.hosting.following import Observation, follow
from binshift.hosting.kubectl.cluster import KIND, Kubectl

POLL_SECONDS: Final = 0.5
PROGRAM: Final = "kubectl binshift"
CONDITIONS: Final = ("Ready", "Progressing", "Degraded")

Command = Callable[[Kubectl, argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status, as `binshift` does."""
    given = parser().parse_args(arguments)
    options = [
        f"--{name}={value}" for name in ("namespace", "context", "kubeconfig") if (value := getattr(given, name))
    ]

    def act() -> int:
        COMMANDS[given.command][0](Kubectl(options), given)
        return 0

    return exit_status(f"{PROGRAM} {given.command}", act)


def status(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """Conditions, autoscaling, replacement of executors, epoch, workers, rates, latency and the newest migration."""
    found = kubectl.get(KIND, given.name)
    with kubectl.control(given.name) as control:
        dataflow = control.dataflow()
    if given.output == "json":
        reported = found.get("status", {})
        of_operator = {name: reported.get(name) for name in ("rollout", "autoscaling")}
        of_operator |= {name: reported[name] for name in ("driver",) if name in reported}
        write(as_json({"conditions": reported.get("conditions", []), **of_operator, "dataflow": dataflow}))
        return
    replicas = ("replicas", str(found["spec"].get("replicas", "-")))
    own = [*_conditions(found), replicas, *_autoscaling(found), *_rollout(found), *_drivers(found)]
    print_facts([*own, *dataflow_facts(dataflow), *speed_facts(dataflow)])


def _conditions(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    by_type = _by_type(found)
    for name in CONDITIONS:
        if name in by_type:
            each = by_type[name]
            yield name.lower(), f"{each['status']}, {each['reason']}: {each['message']}"


def _by_type(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["type"]: each for each in found.get("status", {}).get("conditions", [])}


def _rollout(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """How many executors are updated, while they are replaced one after the other."""
    if rollout := found.get("status", {}).get("rollout"):
        leaving = ", ".join(rollout.get("leavingNodes") or ())
        done = f"{rollout.get('updated')} of {rollout.get('total')} executors updated"
        yield "rollout", f"{done}{f'; they leave {leaving}' if leaving else ''}"


def _autoscaling(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The number of executors by autoscaling, and why."""
    if scaled := found.get("status", {}).get("autoscaling"):
        yield "autoscaled", f"{scaled.get('desiredReplicas')}, {scaled.get('reason')}: {scaled.get('message')}"


def _drivers(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The pods of the active driver and of the standby, if the dataflow has one."""
    if drivers := found.get("status", {}).get("driver"):
        standby = f"standby {drivers['standby']}" if drivers.get("standby") else "no standby waits"
        yield "driver", f"{drivers.get('active') or 'none is active'}; {standby}"


def bins(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """How many bins each worker holds, or the single bins of one."""
    with kubectl.control(given.name) as control:
        print_bins(control, given.worker, given.output)


def migrations(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """The newest migrations; ``--watch`` shows progress until the newest edit of the dataflow is in place."""
    with kubectl.control(given.name) as control:
        if given.watch:
            with shown_migrations(given.output) as show:
                follow(lambda: _read(kubectl, given.name, control), show, lambda: time.sleep(POLL_SECONDS))
        else:
            print_migrations(control, given.output, f"`kubectl scale sdf/{given.name}`")


def _read(kubectl: Kubectl, name: str, control: ControlClient) -> Observation:
    found = kubectl.get(KIND, name)
    progressing = _by_type(found).get("Progressing", {})
    awaited = progressing["message"] if progressing.get("status") == "True" else ""
    settled = found.get("status", {}).get("settledGeneration") == found["metadata"]["generation"]
    return Observation(control.dataflow().migration, awaited, settled)


def rebalance(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """Share the bins by measured load."""
    nonce = kubectl.get(KIND, given.name)["spec"].get("rebalance", {}).get("nonce", 0)
    kubectl.patch(given.name, {"rebalance": {"nonce": nonce + 1}})
    if given.output == "json":
        write(as_json({"nonce": nonce + 1}))
    else:
        write(f"requested; `{PROGRAM} migrations {given.name} --watch` shows it")


def drain(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """Move all bins of a worker to the others; they return when its pod has been replaced."""
    with kubectl.control(given.name) as control:
        print_migration(control.drain(given.worker), given.output, "the worker holds no bins")


def cancel(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """Cancel the migration that is under way."""
    with kubectl.control(given.name) as control:
        newest = control.under_way()
        if newest is None:
            raise NoSuchMigration("nothing moves now")
        print_migration(control.cancel(newest.id, rollback=given.rollback), given.output, "nothing to cancel")


def top(kubectl: Kubectl, given: argparse.Namespace) -> None:
    """The load of each worker: its share of the records, its state, and failures of its background rounds."""
    with kubectl.control(given.name) as control:
        rates: dict[int, float] = {}
        for bin in control.bins():
            if bin.rows_per_second is not None:
                rates[bin.worker] = rates.get(bin.worker, 0.0) + bin.rows_per_second
        workers = control.workers().workers
    if given.output == "json":
        write(as_json([{"worker": each, "rowsPerSecond": rates.get(each.worker)} for each in workers]))
        return
    table = columns("right", "worker", "rows/s", "bins", "keys", "MiB", "failed rounds", "error")
    for each in workers:
        size = "-" if each.bytes is None else f"{each.bytes / (1 << 20):,.1f}"
        rate = known(round(rates[each.worker]) if each.worker in rates else None)
        failures = (str(each.background_failures), each.background_error)
        table.add_row(str(each.worker), rate, str(each.bins), known(each.keys), size, *failures)
    Console().print(table)


def completion(_: Kubectl, given: argparse.Namespace) -> None:
    """A script for kubectl's own completion of this plugin; save it as `kubectl_complete-binshift` in the PATH."""
    write(COMPLETION.format(commands=" ".join(COMMANDS), kind=KIND))


COMMANDS: Final[Mapping[str, tuple[Command, str]]] = {
    "status": (status, "show conditions, epoch, workers, rates, latency and the newest migration"),
    "bins": (bins, "show which worker holds how many bins"),
    "migrations": (migrations, "show past and running migrations"),
    "top": (top, "show the load of each worker"),
    "rebalance": (rebalance, "share the bins by measured load"),
    "drain": (drain, "move all bins of a worker to the others"),
    "cancel": (cancel, "cancel the migration that is under way"),
    "completion": (completion, "print a script for the shell's completion"),
}
"""Name -> (function, what it does in a line)."""

COMPLETION: Final = """#!/bin/sh
# kubectl runs this file for `kubectl binshift <TAB>`: one candidate a line, then a directive (4: no files).
case $# in
    0|1) printf '%s\\n' {commands} ;;
    2) kubectl get {kind} --output=jsonpath='{{range .items[*]}}{{.metadata.name}}{{"\\n"}}{{end}}' 2>/dev/null ;;
esac
echo ":4"
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-n", "--namespace", help="of the dataflow (default: that of the context)")
    common.add_argument("--context", help="of the kubeconfig")
    common.add_argument("--kubeconfig", metavar="FILE", help="another kubeconfig")
    common.add_argument("--output", choices=("text", "json"), default="text", help="output format (default: text)")
    found = argparse.ArgumentParser(
        PROGRAM,
        description="Shows and moves the state of dataflows.",
        epilog=f"`{PROGRAM} COMMAND --help` describes each of them.",
    )
    found.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    made = found.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (act, text) in COMMANDS.items():
        each = made.add_parser(name, help=text, description=act.__doc__, parents=[common])
        if name != "completion":
            each.add_argument("name", metavar="DATAFLOW", help="name of the StreamingDataflow")
        if name == "bins":
            each.add_argument("--worker", type=int, metavar="W", help="list the bins of this worker")
        if name == "migrations":
            each.add_argument("--watch", action="store_true", help="show progress until the newest edit is in place")
        if name == "drain":
            each.add_argument("worker", type=int, metavar="WORKER", help="number of the executor")
        if name == "cancel":
            each.add_argument("--rollback", action="store_true", help="move bins back that have moved")
    return found
