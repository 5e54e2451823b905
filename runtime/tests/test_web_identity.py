"""A role for a pod's ServiceAccount: binshift's log and Spark's offsets find it by the same variables."""

from __future__ import annotations

import socket
import threading
import zipfile
from pathlib import Path

import pytest

from binshift import s3
from binshift.errors import StorageUnavailable
from binshift.hosting.pod import conf
from binshift.log.storage.opening import open_storage

ROLE = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/clicks"}
JARS = Path(__file__).resolve().parents[2] / "build" / "s3-jars"
STS_MODULE = "software/amazon/awssdk/services/sts/internal/StsWebIdentityCredentialsProviderFactory.class"


def test_spark_tries_the_identity_before_the_nodes_role() -> None:
    """If the variables of an identity are set, Spark's S3 tries it after explicit keys and before the node's own role."""
    found = s3.spark_conf({"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token", **ROLE})[s3.CREDENTIALS_CONF].split(",")
    kinds = [each.rpartition(".")[2].removesuffix("CredentialsProvider") for each in found]
    assert kinds == ["TemporaryAWS", "SimpleAWS", "EnvironmentVariable", "WebIdentityTokenFile", "IAMInstance"]


def test_without_an_identity_hadoop_chooses() -> None:
    """Without an identity, Hadoop's own list is unchanged; a list set by the user comes later and takes precedence."""
    assert s3.CREDENTIALS_CONF not in s3.spark_conf({"AWS_REGION": "eu-west-1", "AWS_WEB_IDENTITY_TOKEN_FILE": ""})
    environment = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token"}
    ours = conf.overrulable(Path("/app/main.py"), Path("/var/lib/binshift"), environment)
    file = conf.defaults_file(ours, f"{s3.CREDENTIALS_CONF} mine", {})
    assert file.index(ours[s3.CREDENTIALS_CONF]) < file.index("mine")


@pytest.mark.skipif(not JARS.is_dir(), reason="scripts/s3-jars.sh build/s3-jars has not been run")
def test_the_classes_are_in_the_image() -> None:
    """Every named class, and the module that converts an identity to credentials, is in a jar of the image."""
    there = {name for jar in JARS.glob("*.jar") for name in zipfile.ZipFile(jar).namelist()}
    wanted = {each.replace(".", "/") + ".class" for each in s3.WITH_WEB_IDENTITY} | {STS_MODULE}
    assert wanted <= there


def test_the_log_requests_the_identitys_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it writes anything, binshift's log connects to the service that issues credentials for the token."""
    token = tmp_path / "token"
    token.write_text("token", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as service:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        url = f"https://127.0.0.1:{service.getsockname()[1]}"
        variables = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_REGION": "eu-west-1", **ROLE}
        for name, value in (variables | {"AWS_ENDPOINT_URL_STS": url}).items():
            monkeypatch.setenv(name, value)
        came: list[bytes] = []
        thread = threading.Thread(target=_hang_up, args=(service, came), daemon=True)
        thread.start()
        storage = open_storage("s3://bucket/clicks", {"retries": "1", "timeout_seconds": "5"})
        with pytest.raises(StorageUnavailable):
            storage.put("a", b"x")
        thread.join(30)
    assert came
    assert came[0][0] == 0x16, "the connection begins with TLS: the token is not sent in clear text"


def _hang_up(service: socket.socket, came: list[bytes]) -> None:
    for _ in range(2):
        connection, _ = service.accept()
        with connection:
            came.append(connection.recv(1024))
