"""What the plugin asks of kubectl: an object, a change of one, and a port of a pod for as long as a command runs."""

from __future__ import annotations

import base64
import json
import re
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from binshift.encryption import SECRET_ANNOTATION
from binshift.errors import ControlUnreachable, NoRun
from binshift.hosting.client import ControlClient
from binshift.ports import Ports

KIND: Final = "streamingdataflows.binshift.dev"
CALL_SECONDS: Final = 60.0
FORWARDED: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


@dataclass(frozen=True)
class Kubectl:
    """kubectl with the user's options.

    Attributes:
        options: before every command: ``--context``, ``--namespace`` and the like.
        program: the file to run; from the PATH by default.
    """

    options: Sequence[str] = ()
    program: str = "kubectl"

    def __call__(self, *arguments: str) -> str:
        """What kubectl prints.

        Raises:
            NoRun: kubectl refuses; the message is its own.
        """
        line = [self.program, *self.options, *arguments]
        try:
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=CALL_SECONDS)
        except FileNotFoundError:
            raise NoRun(f"there is no {self.program} in the PATH: install kubectl") from None
        except subprocess.TimeoutExpired:
            raise NoRun(f"{self.program} {arguments[0]} has not answered within {CALL_SECONDS:g} s") from None
        if done.returncode:
            # Its last line; those before it are its own log.
            reason = (done.stderr.strip().splitlines() or [str(done.returncode)])[-1]
            raise NoRun(f"{self.program} {' '.join(arguments[:3])}: {reason}")
        return done.stdout

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """An object."""
        found: dict[str, Any] = json.loads(self("get", kind, name, "--output=json"))
        return found

    def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        """Change a dataflow's spec."""
        self("patch", KIND, name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    @contextmanager
    def forwarded(self, pod: str, port: int) -> Iterator[int]:
        """A port on this machine's loopback that leads to a pod's.

        Raises:
            ControlUnreachable: kubectl cannot forward it; the message is its own.
        """
        line = [self.program, *self.options, "port-forward", f"pod/{pod}", f":{port}", "--address=127.0.0.1"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            found = FORWARDED.match(process.stdout.readline())
            if found is None:
                process.terminate()
                raise ControlUnreachable(f"pod {pod} cannot be reached: {process.stderr.read().strip()}")
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def driver(self, name: str) -> str:
        """The pod of a dataflow's active driver: of two, the status has it.

        Raises:
            NoRun: there is no such dataflow, or the user cannot read it.
        """
        status = self.get(KIND, name).get("status") or {}
        return str((status.get("driver") or {}).get("active") or f"{name}-driver-0")

    @contextmanager
    def control(self, name: str) -> Iterator[ControlClient]:
        """The control API of a dataflow, opened by the token in its Secret.

        Raises:
            NoRun: the user cannot read the Secret, or there is none.
            ControlUnreachable: the driver's pod cannot be reached.
        """
        token = base64.b64decode(self.get("secret", f"{name}-keys")["data"]["control-token"]).decode()
        pod = self.driver(name)
        secured = SECRET_ANNOTATION in (self.get("pod", pod)["metadata"].get("annotations") or {})
        with self.forwarded(pod, Ports().control) as port:
            scheme, tls = ("https", tunnelled()) if secured else ("http", None)
            yield ControlClient(f"{scheme}://127.0.0.1:{port}", token, tls)


def tunnelled() -> ssl.SSLContext:
    """TLS at the end of a forwarded port: API server and kubelet are what proves that this is the pod.

    Its certificate is not checked: who could read the authority in the driver's Secret could read the driver's private key.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
