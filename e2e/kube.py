"""kubectl and helm as functions: what a user types, with time limits, and answers as Python values.

Owns no knowledge of binshift. Everything is read from the API server each time; nothing is cached.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from waits import timed

CALL_SECONDS_MAX = 60.0
LOOK_EVERY_SECONDS = 0.5

T = TypeVar("T")


class Refused(Exception):
    """A command ended with another status than 0; the message is its output."""


class TooLate(AssertionError):
    """Something awaited did not come."""


def until(what: str, seconds: float, read: Callable[[], T | None], every: float = LOOK_EVERY_SECONDS) -> T:
    """The first answer of ``look`` that is neither None nor False.

    Raises:
        TooLate: none within ``seconds``; an error of the last read is its cause.
    """
    deadline, failure = time.monotonic() + seconds, None
    with timed(what):
        while True:
            try:
                answer, failure = read(), None
                if answer is not None and answer is not False:
                    return answer
            except (Refused, KeyError, IndexError, subprocess.TimeoutExpired) as error:
                failure = error
            if time.monotonic() > deadline:
                raise TooLate(f"not within {seconds:.0f} s: {what}" + (f" ({failure})" if failure else "")) from failure
            time.sleep(every)


@dataclass(frozen=True)
class Kube:
    """One namespace of one cluster.

    Attributes:
        environment: in which kubectl and helm find the cluster.
        namespace: of every call, unless it names another.
    """

    environment: Mapping[str, str] = field(repr=False)
    namespace: str = "default"

    def __call__(self, *arguments: str, stdin: str | None = None, seconds: float = CALL_SECONDS_MAX) -> str:
        """kubectl with these arguments; returns what it printed.

        Raises:
            Refused: it failed.
        """
        return self.command("kubectl", "--namespace", self.namespace, *arguments, stdin=stdin, seconds=seconds)

    def helm(self, *arguments: str, seconds: float = 180.0) -> str:
        """helm with these arguments. Errors as `__call__`."""
        return self.command("helm", "--namespace", self.namespace, *arguments, seconds=seconds)

    def command(self, *arguments: str, stdin: str | None = None, seconds: float = CALL_SECONDS_MAX) -> str:
        """Any command in this environment. Errors as `__call__`."""
        with timed(" ".join(arguments)):
            done = subprocess.run(
                arguments,
                input=stdin,
                timeout=seconds,
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise Refused(f"{' '.join(arguments[:8])}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def refused(self, *arguments: str, stdin: str | None = None) -> str:
        """The API server's error for a call that must fail.

        Raises:
            AssertionError: it was let through.
        """
        try:
            printed = self(*arguments, stdin=stdin)
        except Refused as refusal:
            return str(refusal)
        raise AssertionError(f"was let through: kubectl {' '.join(arguments)}: {printed}")

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """One object."""
        answer: dict[str, Any] = json.loads(self("get", kind, name, "--output", "json"))
        return answer

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind that match."""
        answer: list[dict[str, Any]] = json.loads(self("get", kind, "--selector", selector, "--output", "json"))[
            "items"
        ]
        return answer

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects."""
        self("apply", "--filename", "-", stdin=documents(objects))

    def delete(self, kind: str, *names: str, wait: bool = True, grace: int | None = None) -> None:
        """Delete objects; it is no error if one does not exist."""
        options = ["--ignore-not-found", f"--wait={str(wait).lower()}"]
        options += [] if grace is None else [f"--grace-period={grace}", *(["--force"] if grace == 0 else [])]
        self("delete", kind, *names, *options, seconds=180)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """A merge patch."""
        self("patch", kind, name, "--type=merge", "--patch", json.dumps(change))

    def elsewhere(self, namespace: str) -> Kube:
        """The same cluster, another namespace."""
        return Kube(self.environment, namespace)


def documents(objects: Iterable[Mapping[str, Any]]) -> str:
    """Objects as one stream for kubectl (JSON is YAML)."""
    return "\n---\n".join(json.dumps(each) for each in objects)


def given_environment(kubeconfig: str | None = None) -> dict[str, str]:
    """This process's environment, with a kubeconfig."""
    return dict(os.environ) | ({"KUBECONFIG": kubeconfig} if kubeconfig else {})
