"""Runs in a pod that has no token: tries what it must not be able to do, and prints the answers.

python intruder.py http CONTROL_URL        every write of the control API, without a token and with a wrong one
python intruder.py spark MASTER_URL        an application of its own on the dataflow's Spark cluster, without the secret

Spark retries for a minute without a message; a client with the secret is admitted within a few seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request

WRITES = [
    ("PUT", "/v1/target", {"owner": "", "generation": 9_999_999, "workers": [0]}),
    ("DELETE", "/v1/migrations/1?rollback=true", None),
    ("POST", "/v1/workers/0/drain", None),
    ("POST", "/v1/stop", None),
]
TOKENS = (None, "not-the-token")
LET_IN_SECONDS_MAX = 30


def http(url: str) -> None:
    """Print one JSON list: the status of each attempt."""
    print(json.dumps([status(url, *write, token) for write in WRITES for token in TOKENS]))


def status(url: str, method: str, path: str, body: object, token: str | None) -> int:
    """The HTTP status of one call."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def spark(url: str) -> None:
    """Print whether an application without the secret got as far as an application id of the master's."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_DIRS"] = "/tmp"
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LET_IN_SECONDS_MAX)
    builder = SparkSession.builder.master(url).appName("intruder").config("spark.ui.enabled", "false")
    try:
        session = builder.config("spark.driver.host", os.environ["POD_IP"]).getOrCreate()
    except Exception as error:  # the master's refusal reaches Python as whatever Java made of it
        print(f"refused: {type(error).__name__}")
        return
    print(f"let in: {session.sparkContext.applicationId}")


def give_up(*_: object) -> None:
    """End at once, in the middle of whatever Java waits for."""
    print(f"refused: no answer within {LET_IN_SECONDS_MAX} s", flush=True)
    os._exit(0)


if __name__ == "__main__":
    {"http": http, "spark": spark}[sys.argv[1]](sys.argv[2])
