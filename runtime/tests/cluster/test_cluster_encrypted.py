"""Encrypted pods: nothing between them can be read, a renewed certificate is used, and Spark's UI is on loopback and only shows."""

from __future__ import annotations

import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
from certificates import Authority, Mounted
from overheard import Overheard, overheard
from runs import WAIT_SECONDS, awaited, run_command, running, status

from pods_world import SPARKS, Pods, pods

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).resolve().parent / "pods_program.py"
HOST = "127.0.0.1"


@contextmanager
def listening(world: Pods) -> Iterator[Overheard]:
    """Hear what is sent between the pods; without the right to, the test is skipped."""
    try:
        with overheard({name: world.ports[name] for name in SPARKS}) as found:
            yield found
    except PermissionError:
        pytest.skip("only root can listen to a network")


def started(world: Pods, **variables: str) -> None:
    """A dataflow of two workers, with standing tasks, that has committed some epochs."""
    world.master()
    for slot in (0, 1):
        world.worker(slot)
    world.driver(PROGRAM, str(world.folder / "none"), **variables)
    world.awaited(lambda seen: seen.get("state") == "Running" and seen["epoch"] >= 4, lambda: _patient(world))


def _patient(world: Pods) -> dict[str, object]:
    try:
        state: dict[str, object] = world.dataflow()
    except OSError:
        return {}
    return state


def test_traffic_without_encryption_can_be_read(tmp_path: Path) -> None:
    """What the other test is compared with."""
    with pods(tmp_path, cores=3) as world, listening(world) as heard:
        started(world)
    assert heard.silent(SPARKS) == set()
    assert heard.readable["DRIVER"] > 0
    assert heard.readable["MASTER"] > 0


def test_encrypted_pods(tmp_path: Path) -> None:
    """Epochs, a rescale, and the control API work, and no message of Spark's can be read; a renewed certificate restarts nothing."""
    authority, mounted = Authority(), Mounted(tmp_path / "tls")
    with pods(tmp_path, mounted.put(authority.issue(HOST)), cores=3) as world, listening(world) as heard:
        started(world, BINSHIFT_SPARK_UI="true")
        _spark_ui_only_shows(world)
        world.ask("PUT", "/v1/target", {"owner": "uid-1", "generation": 1, "workers": [0, 1, 2]})
        world.worker(2)
        moved = world.awaited(lambda seen: bool(seen["target"]) and seen["target"]["settled"])
        assert moved["workers"] == [0, 1, 2]
        renewed = authority.issue(HOST)
        mounted.put(renewed)
        assert ssl.get_server_certificate((HOST, world.ports["CONTROL"])).encode() == renewed["tls.crt"]
        world.awaited(lambda seen: seen["state"] == "Running" and seen["epoch"] >= moved["epoch"] + 2)
        assert world.ask("POST", "/v1/stop")["state"] in {"Running", "Stopped"}
        world.awaited(lambda seen: seen["state"] == "Stopped")
        assert world.end("driver") == 0
    assert heard.silent(SPARKS) == set()
    assert set(heard.readable.values()) == {0}


def _spark_ui_only_shows(world: Pods) -> None:
    port = world.ports["SPARK_UI"]
    with urlopen(f"http://{HOST}:{port}/jobs/", timeout=60) as answer:
        page = answer.read().decode()
    assert "Spark Jobs" in page
    assert "kill" not in page
    with pytest.raises(HTTPError, match="403"):
        urlopen(Request(f"http://{HOST}:{port}/jobs/job/kill/?id=0", method="POST"), timeout=60)
    listeners = [each.laddr for each in psutil.net_connections("tcp") if each.status == "LISTEN" and each.laddr]
    places = {each.ip for each in listeners if each.port == port}
    assert {each.removeprefix("::ffff:") for each in places} == {HOST}


def test_an_encrypted_run(tmp_path: Path) -> None:
    """`binshift run --encrypt` commits epochs and is scaled by another command, which checks the certificate; a folder without one is refused."""
    folder = Mounted(tmp_path / "tls").put(Authority().issue(HOST))
    program = str(PROGRAM.with_name("steered_program.py"))
    options = ("--workers", "1", "--encrypt", str(folder))
    with running(tmp_path, program, *options, "--", str(tmp_path / "checkpoint")) as process:

        def seen() -> Any:
            assert process.poll() is None, (tmp_path / "run.log").read_text(errors="replace")
            return status(tmp_path)

        before = awaited(seen, lambda seen: seen["dataflow"]["epoch"] >= 2)
        assert before["run"]["url"].startswith("https://127.0.0.1:")
        assert run_command(tmp_path, "scale", "2", "--wait").returncode == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=WAIT_SECONDS) == 130
    refused = run_command(tmp_path, "run", program, "--encrypt", str(tmp_path / "runs"))
    assert refused.returncode == 2
    assert "has no tls.crt" in refused.stderr
