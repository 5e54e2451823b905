"""The pods' processes derive Spark's conf, command lines, and errors that name a variable, from their environment."""

from __future__ import annotations

import logging
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from binshift.errors import InvalidSettings
from binshift.hosting.pod import conf, daemons, driver, master
from binshift.hosting.pod.settings import DriverSettings
from binshift.hosting.pod.spark_worker import java_options, spark_worker
from binshift.java import DRIVER_OPTIONS, EXECUTOR_OPTIONS, java_home
from binshift.ports import Ports

DRIVER = {"BINSHIFT_MASTER": "spark://d-0.d:7077", "BINSHIFT_HOST": "d-0.d"}
WORKER = {**DRIVER, "BINSHIFT_HOST": "x-1.x", "BINSHIFT_EXECUTOR_MEMORY": "900m", "BINSHIFT_EXECUTOR_CORES": "3"}


def worker_arguments(environment: Mapping[str, str]) -> list[str]:
    """The command line of Spark's worker."""
    return spark_worker(environment, environment["BINSHIFT_MASTER"], Ports.from_environment(environment)).arguments


def properties(text: str) -> dict[str, str]:
    """A file of properties as Java reads it, as far as binshift writes it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = (line.replace("=", " ", 1).split(None, 1) for line in lines)
    return {key: value.replace("\\\\", "\\") for key, value in pairs}


def test_the_last_word_is_ours_where_it_must_be(tmp_path: Path) -> None:
    """The user's conf overrides defaults, and is overridden by addresses, ports, the checkpoint and binshift's requirements."""
    given = "spark.app.name mine\nspark.binshift.enabled false\nspark.driver.port=1\nspark.sql.shuffle.partitions 3\nspark.scheduler.mode FIFO\n"
    (tmp_path / "spark-defaults.conf").write_text(given)
    environment = {
        **DRIVER,
        "SPARK_CONF_DIR": str(tmp_path),
        "BINSHIFT_CHECKPOINT": "s3a://b/c",
        "_SPARK_AUTH_SECRET": "se\\cret",
    }
    settings = DriverSettings.from_environment(environment)
    found = properties(conf.defaults(settings, Path("/app/main.py"), "/libs"))
    before = conf.overrulable(Path("/app/main.py"), Path("/d"), {})
    assert (found["spark.app.name"], found["spark.sql.shuffle.partitions"]) == ("mine", "3")
    assert (found["spark.driver.port"], found["spark.blockManager.port"]) == ("7402", "7413")
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("d-0.d", "0.0.0.0")
    assert (found["spark.scheduler.mode"], found["spark.binshift.checkpoint"]) == ("FAIR", "s3a://b/c")
    assert (found["spark.authenticate"], found["spark.authenticate.secret"]) == ("true", "se\\cret")
    assert found["spark.executorEnv.PYTHONPATH"] == "/app:/libs"
    assert "secret" not in repr(settings)
    assert (before["spark.binshift.enabled"], found["spark.binshift.enabled"]) == ("true", "false")


def test_a_users_options_for_java_come_last(tmp_path: Path) -> None:
    """How code is compiled is a default: Spark appends the user's own options to it, and Java accepts both."""
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions=-Da=b\n")
    settings = DriverSettings.from_environment({**DRIVER, "SPARK_CONF_DIR": str(tmp_path)})
    found = properties(conf.defaults(settings, Path("/app/main.py"), ""))
    assert found["spark.driver.extraJavaOptions"] == "-Da=b"
    for role, expected in (("driver", DRIVER_OPTIONS), ("executor", EXECUTOR_OPTIONS)):
        given = found[f"spark.{role}.defaultJavaOptions"]
        assert given.startswith(conf.NAME_OPTIONS)
        assert expected in given
        ran = subprocess.run(
            [f"{java_home()}/bin/java", *given.split(), "-version"], capture_output=True, text=True, timeout=60
        )
        assert (ran.returncode, "warning" in ran.stderr.lower()) == (0, False), ran.stderr


def test_without_a_secret_nothing_is_authenticated() -> None:
    """Without a secret, the given conf decides."""
    found = conf.fixed(DriverSettings("spark://h:1", "h"), {}, Path("/app/main.py"), "")
    assert not [key for key in found if "authenticate" in key or "checkpoint" in key]


@pytest.mark.parametrize(("variables", "enabled"), [({}, False), ({"BINSHIFT_SPARK_UI": "true"}, True)])
def test_sparks_ui_is_on_loopback(variables: dict[str, str], enabled: bool, tmp_path: Path) -> None:
    """It is off by default; enabled, it has its own port of the table, listens on loopback and ends nothing."""
    settings = DriverSettings.from_environment(DRIVER | variables)
    found = conf.fixed(settings, {}, Path("/app/main.py"), "")
    assert found["spark.ui.enabled"] == str(enabled).lower()
    assert (found["spark.ui.port"], found["spark.ui.killEnabled"]) == (str(Ports().spark_ui), "false")
    prepared = conf.prepare(settings, Path("/app/main.py"), "", tmp_path)
    assert prepared.get("SPARK_LOCAL_IP") == ("127.0.0.1" if enabled else None)


def test_a_value_may_have_any_characters() -> None:
    """Backslashes and leading blanks survive Java's parsing; a line break cannot start another property."""
    assert conf.defaults_file({"a": "b\\c"}, "given", {"d": " e\nf"}) == "a=b\\\\c\n\ngiven\nd=\\ e\\nf\n"


def test_the_programs_environment_has_no_secrets() -> None:
    """Tokens and Spark's secret are not in it."""
    environment = {**DRIVER, "BINSHIFT_TOKEN": "t1", "BINSHIFT_DRAIN_TOKEN": "t2", "_SPARK_AUTH_SECRET": "t3"}
    assert driver.program_environment(environment) == DRIVER


def test_spark_finds_its_conf(tmp_path: Path) -> None:
    """The folder has the given files, and defaults that only the owner can read; variables point to it and hold no secret."""
    given, folder = tmp_path / "given", tmp_path / "folder"
    given.mkdir()
    folder.mkdir()
    (given / "log4j2.properties").write_text("x")
    (given / "spark-defaults.conf").write_text("a b")
    settings = DriverSettings("spark://h:1", "h", secret="t3", conf=given)
    found = conf.prepare(settings, Path("/app/main.py"), "", folder)
    assert "t3" not in str(found)
    assert (found["SPARK_CONF_DIR"], found["SPARK_LOCAL_HOSTNAME"]) == (str(folder), "h")
    assert found["PYSPARK_SUBMIT_ARGS"] == "--master spark://h:1 pyspark-shell"
    assert (folder / "log4j2.properties").read_text() == "x"
    defaults = folder / "spark-defaults.conf"
    assert {"a b", "spark.authenticate.secret=t3"} <= set(defaults.read_text().splitlines())
    assert stat.S_IMODE(defaults.stat().st_mode) == 0o600


def test_the_masters_command_line() -> None:
    """The master listens on its own name, keeps its memory in files, restarts executors without limit, and accepts no jobs."""
    assert master.arguments(DRIVER) == ["--host", "d-0.d", "--port", "7077", "--webui-port", "7079"]
    options = master.java_options(Path("/var/lib/binshift/master"))
    for wanted in (
        "-Dspark.deploy.recoveryMode=FILESYSTEM",
        "-Dspark.deploy.recoveryDirectory=/var/lib/binshift/master",
        "-Dspark.deploy.maxExecutorRetries=-1",
        "-Dspark.master.rest.enabled=false",
        "-Dspark.ui.killEnabled=false",
        "-Dsun.net.inetaddr.ttl=5",
    ):
        assert wanted in options.split()


@pytest.mark.parametrize(
    ("given", "offered"), [("2gb", "2048m"), ("2G", "2048m"), ("1200", "1200m"), ("524288k", "512m")]
)
def test_a_worker_takes_sizes_as_spark_does(given: str, offered: str) -> None:
    """Any Spark notation is converted to one that its worker and its executor read alike."""
    found = worker_arguments({**WORKER, "BINSHIFT_EXECUTOR_MEMORY": given})
    assert found[found.index("--memory") + 1] == offered


def test_the_address_of_a_pod_that_is_gone_is_not_tried_for_long() -> None:
    """Such an address never answers, and Spark would wait for two minutes: for a worker's master, and for blocks of a dead executor."""
    key = "io.connectionCreationTimeout"
    assert f"-Dspark.rpc.{key}=5s" in java_options().split()
    found = conf.overrulable(Path("/app/main.py"), Path("/d"), {})
    assert (found[f"spark.rpc.{key}"], found[f"spark.shuffle.{key}"]) == ("10s", "10s")


def test_the_workers_command_line() -> None:
    """It offers all its resources, under its own name, to its master."""
    text = " ".join(worker_arguments({**WORKER, "BINSHIFT_DIRECTORY": "/d"}))
    assert (
        text == "--host x-1.x --port 7078 --webui-port 0 --cores 3 --memory 900m --work-dir /d/work spark://d-0.d:7077"
    )


def test_a_daemons_environment() -> None:
    """Its heap is small unless set otherwise, its page is on loopback, and given options come last."""
    found = daemons.daemon_environment({"SPARK_DAEMON_JAVA_OPTS": "-Xx", "A": "b"}, "x-1.x", "-Dy")
    assert (found["SPARK_DAEMON_MEMORY"], found["SPARK_LOCAL_IP"]) == ("128m", "127.0.0.1")
    options = found["SPARK_DAEMON_JAVA_OPTS"].split()
    assert (options[0], options[-1], found["A"]) == ("-Dy", "-Xx", "b")
    assert (Path(found["SPARK_HOME"]) / "bin" / "spark-class").exists()
    assert daemons.daemon_environment({"SPARK_DAEMON_MEMORY": "1g"}, "h", "")["SPARK_DAEMON_MEMORY"] == "1g"


@pytest.mark.parametrize(
    ("read", "environment", "message"),
    [
        (DriverSettings.from_environment, {}, "BINSHIFT_MASTER is not set"),
        (DriverSettings.from_environment, {**DRIVER, "BINSHIFT_HOST": ""}, "BINSHIFT_HOST is not set"),
        (DriverSettings.from_environment, {**DRIVER, "BINSHIFT_MASTER": "local[2]"}, r"local\[2\].*spark://HOST:7077"),
        (DriverSettings.from_environment, {**DRIVER, "BINSHIFT_STOP_SECONDS": "nan"}, "BINSHIFT_STOP_SECONDS is 'nan'"),
        (DriverSettings.from_environment, {**DRIVER, "BINSHIFT_STOP_SECONDS": "soon"}, "BINSHIFT_STOP_SECONDS"),
        (worker_arguments, DRIVER, "BINSHIFT_EXECUTOR_CORES is not set"),
        (worker_arguments, {**WORKER, "BINSHIFT_EXECUTOR_CORES": "1"}, "'1'; it must be a number of task slots, 2"),
        (worker_arguments, {**WORKER, "BINSHIFT_EXECUTOR_MEMORY": "900Mi"}, "'900Mi'.*such as 900m"),
        (master.arguments, {"BINSHIFT_HOST": "h", "BINSHIFT_MASTER_PORT": "0"}, "BINSHIFT_MASTER_PORT"),
    ],
)
def test_a_wrong_environment_is_named(
    read: Callable[[Mapping[str, str]], Any], environment: dict[str, str], message: str
) -> None:
    """The message has the variable, its value, and a valid value."""
    with pytest.raises(InvalidSettings, match=message):
        read(environment)


@pytest.mark.parametrize("module", ["driver", "master", "worker"])
def test_a_process_that_cannot_start_logs_the_reason(module: str) -> None:
    """One line, no traceback, and a status of its own."""
    command = [
        sys.executable,
        "-m",
        f"binshift.hosting.pod.{module}",
        *(["/app/main.py"] if module == "driver" else []),
    ]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "cannot start: BINSHIFT_" in ran.stderr


def test_the_control_api_is_at_the_listed_port() -> None:
    """It listens on all addresses of the pod and on the fixed ports, and requires a token."""
    environment = {**DRIVER, "BINSHIFT_TOKEN": "abc"}
    found = driver.control_settings(DriverSettings.from_environment(environment), environment)
    assert (found.host, found.port, found.health_port) == ("0.0.0.0", Ports().control, Ports().health)
    assert found.tokens.admin == "abc"


def test_a_reason_is_the_termination_message(tmp_path: Path) -> None:
    """In a file that exists or can be created; outside Kubernetes it is ignored."""
    driver.write_termination_reason(tmp_path / "termination", "why")
    assert (tmp_path / "termination").read_text() == "why"
    driver.write_termination_reason(Path("/dev/no-termination-log"), "why")
    driver.write_termination_reason(tmp_path / "nowhere" / "termination", "why")
    assert not Path("/dev/no-termination-log").exists()


def test_others_are_awaited(caplog: pytest.LogCaptureFixture) -> None:
    """An existing name or port is not waited for; the wait for a missing one ends."""
    caplog.set_level(logging.INFO, "binshift.hosting.pod.daemons")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert daemons.await_name("localhost")
        assert daemons.await_port("127.0.0.1", port, 5)
        assert caplog.messages == []
    assert not daemons.await_port("127.0.0.1", port, 0.3)
    assert not daemons.await_name("no.such.name.invalid", 0.0)
    assert any(f"127.0.0.1:{port}" in message for message in caplog.messages)
