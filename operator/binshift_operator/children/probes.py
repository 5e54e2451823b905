"""Ports and probes of containers."""

from __future__ import annotations

from binshift_operator.children.metadata import PORTS, Manifest


def one_worker() -> Manifest:
    """Ports and probes of Spark's worker. Its port is open before the executor runs, and executors hold the bins."""
    return {
        "ports": [port("worker", PORTS.worker), port("executor-blocks", PORTS.executor_blocks)],
        "startupProbe": tcp(PORTS.worker, period=2, failures=90),
        "readinessProbe": tcp(PORTS.executor_blocks, period=5, failures=3),
        "livenessProbe": tcp(PORTS.worker, period=10, failures=6),
    }


def two_workers() -> Manifest:
    """With a standby driver: a worker of either comes and goes with it, and the process that starts both knows which one counts."""
    ports = {"worker": PORTS.worker, "executor-blocks": PORTS.executor_blocks, "health": PORTS.executor_health}
    second = {"second-worker": PORTS.second_worker, "second-blocks": PORTS.second_executor_blocks}
    return {
        "ports": [port(name, number) for name, number in (ports | second).items()],
        "startupProbe": http("/healthz", period=2, failures=90),
        "readinessProbe": http("/readyz", period=5, failures=3),
        "livenessProbe": http("/healthz", period=10, failures=6),
    }


def port(name: str, number: int) -> Manifest:
    """A port of a container."""
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def http(path: str, period: int, failures: int, **scheme: str) -> Manifest:
    """A probe that gets this path of the port `health`; ``scheme``: HTTPS, if it is encrypted."""
    return {
        "httpGet": {"path": path, "port": "health", **scheme},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def tcp(port: int, period: int, failures: int) -> Manifest:
    """A probe that connects."""
    return {"tcpSocket": {"port": port}, "periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures}
