"""Leads to the control API of a dataflow's driver: its address is that of its pod, its token is in the dataflow's Secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from binshift_operator.children import compare, read_keys
from binshift_operator.children.metadata import selector_text
from binshift_operator.driver_client import DriverClient
from binshift_operator.driver_tls import Access, read_trust
from binshift_operator.errors import Forbidden, OperatorError, TimedOut, Unreachable
from binshift_operator.kube import Kube
from binshift_operator.model.drivers import DriverReport, choose_driver
from binshift_operator.model.names import CONTROL_TOKEN, DRIVER, Child, DataflowKey
from binshift_operator.model.observed import ChildState
from binshift_operator.model.pods import Pod
from binshift_operator.pod_state import parse_pod

Address = Callable[[DataflowKey, str], str | None]
"""The URL of a control API, from the dataflow's key and the IP of the driver's pod; None while there is none."""
NO_TOKEN = "there is no token for it"
NO_POD = "there is no driver's pod"
NO_ADDRESS = "its pod has no address yet"
NO_TRUST = "the Secret {} has no ca.crt, by which its certificate could be checked"


def report(client: DriverClient | str) -> DriverReport:
    """What a driver answers; ``client``: of its control API, or the reason for which there is none."""
    if isinstance(client, str):
        return DriverReport(None, client)
    try:
        return DriverReport(client.dataflow())
    except Forbidden:
        return DriverReport(None, "the driver does not accept this token")
    except TimedOut as error:
        return DriverReport(None, f"{client.url}: {error}", timed_out=True)
    except Unreachable as error:
        return DriverReport(None, f"{client.url}: {error}")
    except OperatorError as error:
        return DriverReport(None, f"the driver rejects the request: {error}")


@dataclass(frozen=True, slots=True)
class DriverAccess:
    """Finds the control API of a driver with two reads, for what concerns nothing else of a dataflow.

    Attributes:
        kube: the API server.
        address: see `Address`.
        connect: makes the client of a control API, from its URL and token, and what its certificate is accepted by if it has one.
    """

    kube: Kube
    address: Address
    connect: Callable[..., DriverClient] = DriverClient

    def client(self, key: DataflowKey) -> DriverClient | str:
        """The client of the driver's control API, or the reason for which there is none.

        Raises:
            OperatorError: the API server does not answer, or rejects a request.
        """
        pods = self.kube.list("Pod", key.namespace, selector_text(key, DRIVER))
        drivers = [parse_pod(each, 0.0) for each in pods]
        if not drivers:
            return NO_POD
        secret = self.kube.get(Child.KEYS.kind, key.namespace, key.child(Child.KEYS))
        ours = secret is not None and compare(secret, None, key).state is ChildState.CURRENT
        keys = read_keys(secret) if ours and secret is not None else None
        if keys is None:
            return NO_TOKEN
        secret_name = drivers[0].tls_secret
        trust = read_trust(self.kube, key, secret_name) if secret_name else None
        access = Access(keys[CONTROL_TOKEN], trust)
        if len(drivers) == 1:
            return self.client_at(key, access, drivers[0])
        clients = {pod.uid: self.client_at(key, access, pod) for pod in drivers}
        chosen = choose_driver(drivers, {uid: report(client) for uid, client in clients.items()})
        return NO_POD if chosen is None else clients[chosen.uid]

    def client_at(self, key: DataflowKey, access: Access, driver: Pod) -> DriverClient | str:
        """The client of the control API in a driver's pod, or the reason for which there is none."""
        address, trust = self.address(key, driver.ip), access.trust
        if address is None:
            return NO_ADDRESS
        if not driver.tls_secret:
            return self.connect(address, access.token)
        if trust is None or trust.secret != driver.tls_secret or not trust.authority:
            return NO_TRUST.format(driver.tls_secret)
        return self.connect(address.replace("http://", "https://", 1), access.token, trust)
