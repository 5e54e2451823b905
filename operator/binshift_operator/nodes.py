"""The nodes that are about to go, as the watch last reported them: what one process keeps in memory, and can lose without harm.

Only these nodes are kept, of which there are few, and of each only the taints that announce its end. Reading nodes is a right in the whole
cluster, which the operator may lack: then no node is ever about to go, and executors leave a node when they are evicted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from binshift_operator.errors import OperatorError
from binshift_operator.kube import Kube
from binshift_operator.model.node_taints import Taints, going_taints
from binshift_operator.rights import missing_right

log = logging.getLogger(__name__)
NODE: Final = "Node"
NODES_MAX: Final = 10_000
"""Of more nodes, those reported first are dropped: a node whose deletion was missed is not kept for good."""


@dataclass
class Nodes:
    """The nodes that are about to go. The thread of the watch writes, those of reconciliations read."""

    _going: dict[str, Taints] = field(default_factory=dict)

    def going(self, name: str) -> Taints:
        """The taints by which a node is about to go; empty if it stays, or is unknown."""
        return self._going.get(name, ())

    def update(self, name: str, taints: Taints) -> bool:
        """Record the taints by which a node is about to go; whether they differ from those before."""
        before = self._going.pop(name, ())
        if taints:
            self._going[name] = taints
            if len(self._going) > NODES_MAX:
                del self._going[next(iter(self._going))]
        return taints != before

    def load(self, kube: Kube, wait: Callable[[float], None] = time.sleep) -> bool:
        """List the nodes before the first reconciliation, so that it does not undo what an earlier process had begun.

        Whether this process can watch nodes: not without the right, nor if the API server does not answer the question for it, with
        ``wait`` between the tries. A listing that fails is logged: that of the watch follows.
        """
        try:
            missing = missing_right(kube, NODE, wait=wait)
        except OperatorError as error:
            log.warning("nodes are not watched, as it is unknown whether there is a right to: %s", error)
            return False
        if missing:
            log.info("nodes are not watched: %s; executors leave a node when they are evicted", missing)
            return False
        try:
            for page in kube.pages(NODE, None, selector="", fields=""):
                for each in page:
                    self.update(each["metadata"]["name"], going_taints(each.get("spec") or {}))
        except OperatorError as error:
            log.warning("nodes cannot be listed yet: %s", error)
        return True
