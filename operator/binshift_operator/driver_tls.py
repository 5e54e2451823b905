"""TLS to a driver: what its certificate is checked by.

A driver is addressed by its pod's IP, which another pod can have already. So its certificate must be for the name of its Service, which
includes the namespace, and signed by the authority in the same Secret: a token is sent to no other process.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from binshift.encryption import AUTHORITY, CERTIFICATE, KEY
from binshift_operator.kube import Kube
from binshift_operator.model.names import CONTROL_TOKEN, DataflowKey
from binshift_operator.model.pods import Pod
from binshift_operator.model.specification import Dataflow

NEEDED: Final = (CERTIFICATE, KEY, AUTHORITY)


@dataclass(frozen=True, slots=True)
class Trust:
    """By what the certificate of a driver is accepted.

    Attributes:
        secret: the Secret that it is from.
        server_name: the name that it must be for.
        authority: the certificates, in PEM, of which one must have signed it; empty: the Secret has none.
    """

    secret: str
    server_name: str
    authority: str

    def context(self) -> ssl.SSLContext:
        """For a connection.

        Raises:
            ValueError: the authority is no certificate; the message names the Secret.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it trusts nothing else, not even without an authority
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the authority can be an intermediate one
        try:
            context.load_verify_locations(cadata=self.authority)
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(f"{AUTHORITY} of Secret {self.secret} is no certificate in PEM: {error}") from error
        return context

    def refusal(self, error: BaseException) -> str:
        """The message about a certificate that is not accepted; empty if the error is another one."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            return ""
        return (
            f"its certificate is not accepted: {cause.verify_message}. Secret {self.secret} needs a certificate for {self.server_name} "
            f"that its {AUTHORITY} has signed"
        )


@dataclass(frozen=True, slots=True)
class Access:
    """What the control API of a driver is called with: its token, and what a driver with a certificate is recognised by."""

    token: str = field(repr=False)
    trust: Trust | None = None


def observe_access(
    kube: Kube, dataflow: Dataflow, keys: Mapping[str, str] | None, pods: Iterable[Pod]
) -> tuple[str, Access | None]:
    """The problem of the certificate's Secret that the spec names (empty if there is none), and the access to the running driver.

    Until the dataflow has restarted after an edit, its driver has the certificate that it was started with, or none.

    Raises:
        OperatorError: the API server does not answer.
    """
    wanted, key = dataflow.tls_secret, dataflow.key
    used = next((pod.tls_secret for pod in pods if pod.is_driver), "")
    found = {name: _content(kube, key, name) for name in {wanted, used} if name}
    problem = _problem(key, wanted, found[wanted]) if wanted else ""
    trust = _trust(key, used, found[used]) if used else None
    return problem, None if keys is None else Access(keys[CONTROL_TOKEN], trust)


def read_trust(kube: Kube, key: DataflowKey, secret: str) -> Trust:
    """By what the certificate of a driver that was started with this Secret is accepted. Errors as `observe_access`."""
    return _trust(key, secret, _content(kube, key, secret))


def _trust(key: DataflowKey, secret: str, data: Mapping[str, Any] | None) -> Trust:
    content = base64.b64decode((data or {}).get(AUTHORITY) or "")
    return Trust(secret, key.control_host, content.decode("ascii", "ignore"))  # comments can have any letters


def _content(kube: Kube, key: DataflowKey, name: str) -> Mapping[str, Any] | None:
    secret = kube.get("Secret", key.namespace, name)
    return None if secret is None else secret.get("data") or {}


def _problem(key: DataflowKey, name: str, data: Mapping[str, Any] | None) -> str:
    how = f"create it with {', '.join(NEEDED)} for the DNS name {key.control_host}, such as by a Certificate of cert-manager"
    if data is None:
        return f"there is no Secret {name} (encryption.secretName): {how}"
    missing = [each for each in NEEDED if not data.get(each)]
    return f"Secret {name} (encryption.secretName) has no {', '.join(missing)}: {how}" if missing else ""
