"""A real Prometheus next to the cluster: it discovers pods by the chart's PodMonitors, and evaluates the chart's rules.

What the Prometheus operator would make of a PodMonitor is made here of the rendered one: selector, port, path, relabelings. API
server and pods are reached through `kubectl proxy`, so that any cluster will do that kubectl can reach.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from prometheus_ranges import Prometheus

from clusters import NODE, ROOT
from kube import Kube, until

CHART = ROOT / "charts" / "binshift"
SCRAPE_SECONDS = 2
BUILD_SECONDS_MAX = 1200.0


def scrape_config(monitor: Mapping[str, Any], proxy: str, namespaces: Sequence[str]) -> dict[str, Any]:
    """What the Prometheus operator makes of a PodMonitor with one endpoint, by way of a proxy to the API server."""
    spec = monitor["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    meta = "__meta_kubernetes_pod"
    wanted = {
        f"{meta}_label_{re.sub('[^a-zA-Z0-9]', '_', name)}": v for name, v in spec["selector"]["matchLabels"].items()
    }
    wanted[f"{meta}_container_port_name"] = endpoint["port"]
    place = ["__meta_kubernetes_namespace", f"{meta}_name", f"{meta}_container_port_number"]
    return {
        "job_name": monitor["metadata"]["name"],
        "kubernetes_sd_configs": [
            {"role": "pod", "api_server": f"http://{proxy}", "namespaces": {"names": list(namespaces)}}
        ],
        "relabel_configs": [
            *({"action": "keep", "source_labels": [name], "regex": value} for name, value in wanted.items()),
            {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
            {"source_labels": [f"{meta}_name"], "target_label": "pod"},
            *({_snake(name): value for name, value in each.items()} for each in endpoint["relabelings"]),
            {"source_labels": ["__address__"], "target_label": "instance"},
            {
                "source_labels": place,
                "regex": "(.+);(.+);(.+)",
                "target_label": "__metrics_path__",
                "replacement": f"/api/v1/namespaces/$1/pods/$2:$3/proxy{endpoint['path']}",
            },
            {"target_label": "__address__", "replacement": proxy},
        ],
    }


def _snake(name: str) -> str:
    return re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)


@contextmanager
def watching(
    kube: Kube, system: str, folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> Iterator[Prometheus]:
    """A Prometheus that watches a namespace's dataflows and the operator, until the block ends.

    Args:
        kube: the dataflows' namespace.
        system: the operator's.
        folder: for its configuration and its data.
        change: what to make of each of the chart's files of rules.
    """
    done = subprocess.run(
        [NODE, "tool", "prometheus"], stdout=subprocess.PIPE, text=True, check=True, timeout=BUILD_SECONDS_MAX
    )
    with _proxy(kube) as proxy:
        text = kube.helm(
            "template", "binshift", str(CHART), "--set", "monitoring.podMonitors.enabled=true", "--kube-version=1.29.0"
        )
        monitors = [each for each in yaml.safe_load_all(text) if each and each["kind"] == "PodMonitor"]
        config = {
            "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"},
            "rule_files": _rules(folder, change),
            "scrape_configs": [scrape_config(each, proxy, [kube.namespace, system]) for each in monitors],
        }
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        address = f"127.0.0.1:{_free_port()}"
        command = [
            done.stdout.strip(),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
        ]
        with (folder / "prometheus.log").open("w") as log, _process(command, log):
            until("Prometheus to be ready", 60, lambda: _is_ready(address))
            yield Prometheus(f"http://{address}")


def _rules(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[str]:
    files = []
    for shipped in sorted((CHART / "rules").glob("*.yaml")):
        file = folder / f"rules-{shipped.name}"
        file.write_text(yaml.safe_dump(change(yaml.safe_load(shipped.read_text(encoding="utf-8")))), encoding="utf-8")
        files.append(str(file))
    return files


def alerts(prometheus: Prometheus) -> dict[str, str]:
    """Alerts that are pending or firing, by name."""
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/alerts", timeout=30) as answer:
        return {each["labels"]["alertname"]: each["state"] for each in json.load(answer)["data"]["alerts"]}


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def _proxy(kube: Kube) -> Iterator[str]:
    """The address of a way to the API server without TLS."""
    command = ["kubectl", "proxy", "--port=0"]
    with _process(command, subprocess.PIPE, dict(kube.environment)) as process:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None, "kubectl proxy printed no address"
        yield found[0]


@contextmanager
def _process(
    command: Sequence[str], out: Any, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
