"""A real Kafka broker on the loopback, and the jars that Spark needs for it.

Maven fetches the jars once, pinned and checked by `kafka/pom.xml`, into a folder next to the virtual environment. The broker
is one process in KRaft mode, which keeps its log in the test's folder.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from binshift.java import java_home

POM = Path(__file__).parent / "kafka" / "pom.xml"
ROOT = POM.parents[3]
START_SECONDS = 60.0
READ_SECONDS = 60.0
CONNECTOR = ("spark-sql-kafka-0-10", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""Name prefixes of the jars that a Spark program needs."""

CONFIGURATION = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


def jars() -> list[Path]:
    """All jars of the broker and of Spark's connector; fetched if they are missing."""
    folder = Path(sys.prefix) / "kafka-jars"
    subprocess.run([ROOT / "scripts" / "maven-jars.sh", POM, folder], check=True)
    return sorted(folder.glob("*.jar"))


def connector_jars() -> str:
    """The value of Spark's ``spark.jars``."""
    return ",".join(str(jar) for jar in jars() if jar.name.startswith(CONNECTOR))


@dataclass(frozen=True)
class Record:
    """One record as a consumer sees it."""

    key: str
    value: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    servers: str

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until it exists."""
        client = AdminClient({"bootstrap.servers": self.servers})
        client.create_topics([NewTopic(topic, partitions)])[topic].result(START_SECONDS)

    def send(self, topic: str, rows: list[tuple[str, str]]) -> None:
        """Send (key, value) rows and wait until the broker has all of them."""
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": True})
        for key, value in rows:
            producer.produce(topic, key=key, value=value)
            producer.poll(0)
        left = producer.flush(READ_SECONDS)
        assert not left, f"{left} records were not accepted by the broker"

    def read(self, topic: str) -> list[Record]:
        """Everything committed in a topic so far, partition by partition."""
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        consumer = Consumer(settings)
        try:
            partitions = consumer.list_topics(topic, START_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            return list(_until_end(consumer, len(partitions)))
        finally:
            consumer.close()


def _until_end(consumer: Consumer, partitions: int) -> Iterator[Record]:
    deadline = time.monotonic() + READ_SECONDS
    ended = 0
    while ended < partitions:
        assert time.monotonic() < deadline, "the broker does not return its records"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            yield _record(message)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1


def _record(message: Message) -> Record:
    headers = {name: _text(value) for name, value in dict(message.headers() or {}).items()}
    return Record(_text(message.key()), _text(message.value()), headers)


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """An empty broker; it ends with the block."""
    folder.mkdir(parents=True)
    port, configuration, log = _free_port(), folder / "server.properties", folder / "server.log"
    configuration.write_text(CONFIGURATION.format(port=port, controller=_free_port(), folder=folder / "data"))
    java = [f"{java_home()}/bin/java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", ":".join(map(str, jars()))]
    identity = "AAAAAAAAQACAAAAAAAAAAQ"
    formatted = [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(configuration)]
    subprocess.run(formatted, check=True, capture_output=True)
    with log.open("wb") as out:
        process = subprocess.Popen([*java, "kafka.Kafka", str(configuration)], stdout=out, stderr=out)
    try:
        _await_answer(port, process, log)
        yield Broker(f"127.0.0.1:{port}")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _await_answer(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(Exception):
            if client.list_topics(timeout=1).brokers:
                return
        assert process.poll() is None, f"the broker ended by itself:\n{log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"the broker does not answer:\n{log.read_text()[-2000:]}"
