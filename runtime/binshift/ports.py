"""The ports of a dataflow's pods, in one table: what the operator opens is what the processes listen on.

| port | name | listens | can connect |
|---|---|---|---|
| 7400 | control | driver | the operator, with a token; workers, to drain |
| 7401 | health | driver | kubelet, Prometheus |
| 7402 | driver | driver's Spark | workers, master |
| 7403 | driver blocks | driver's Spark | workers |
| 7404 | active | the active one of two drivers | workers, which find it by that |
| 7077 | master | master | driver, workers |
| 7079 | master status | master, on loopback only | the driver in the same pod |
| 7078 | worker | worker | master, kubelet |
| 7080 | second worker | the same for the second of two drivers | its master |
| 4040 | Spark's UI | driver's Spark, if it is enabled, on loopback only | `kubectl port-forward` |
| 7413 | executor blocks | executors | executors, driver, kubelet |
| 7416 | second executor blocks | executors of the second of two drivers | its executors and it |
| 7414 | executor health | executors' pods of two drivers | kubelet |
| 7415 | control relay | executors of two drivers, on loopback only | the preStop hook: leads to the active driver's control API |

Fixed, as a port that Spark chose would be closed by the network policy. Pure: the operator reads it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from binshift.errors import InvalidSettings

PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Ports:
    """One pod's ports; see the table above.

    >>> Ports().master, Ports.from_environment({"BINSHIFT_MASTER_PORT": "17077"}).master
    (7077, 17077)
    """

    control: int = 7400
    health: int = 7401
    driver: int = 7402
    driver_blocks: int = 7403
    active: int = 7404
    master: int = 7077
    master_status: int = 7079
    worker: int = 7078
    second_worker: int = 7080
    executor_blocks: int = 7413
    second_executor_blocks: int = 7416
    executor_health: int = 7414
    control_relay: int = 7415
    spark_ui: int = 4040

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Ports:
        """The table, with ports of ``BINSHIFT_<NAME>_PORT`` instead if set: for several dataflows on one machine.

        Raises:
            InvalidSettings: one is no port; the message names it.
        """
        given = {each.name: environment.get(variable(each.name), "") for each in fields(cls)}
        for name, text in given.items():
            if text and not (text.isascii() and text.isdigit() and 0 < int(text) <= PORT_MAX):
                raise InvalidSettings(f"{variable(name)} is {text[:20]!r}; it must be a port, 1 to {PORT_MAX}")
        return cls(**{name: int(text) for name, text in given.items() if text})

    def of_driver(self, index: int) -> Ports:
        """The table as the driver with that index has it, and its worker in each executor's pod.

        >>> Ports().of_driver(0).worker, Ports().of_driver(1).worker
        (7078, 7080)
        """
        if index == 0:
            return self
        return replace(self, worker=self.second_worker, executor_blocks=self.second_executor_blocks)


def variable(name: str) -> str:
    """The environment variable of a port.

    >>> variable("driver_blocks")
    'BINSHIFT_DRIVER_BLOCKS_PORT'
    """
    return f"BINSHIFT_{name.upper()}_PORT"
