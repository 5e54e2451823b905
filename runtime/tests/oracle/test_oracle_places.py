"""The named points at which a process may die, each once; `test_oracle_every_effect` covers them by number.

A point is identified by the process's next operation, so that the list reads like the protocol and a point that no longer
exists fails here.
"""

from __future__ import annotations

import pytest
from oracle_fixed import fixed, place

from simulator import Fault

pytestmark = pytest.mark.oracle

FLIP = 5
"""The first epoch of the fixed history in which bins move."""

PLACES = {
    "an executor, before it begins": ("executor", "a transaction", 1),
    "an executor, before its delta": ("executor", f"finish deltas/{4:020d}", 1),
    "an executor, after its delta and before its store's commit": ("executor", "a transaction", 4),
    "an executor, after its commit and before its summary": ("executor", "sending its summary of epoch 4", 1),
    "the second executor, when the first has committed": ("executor", "sending its summary of epoch 4", 2),
    "the driver, before any task": ("driver", "starting run 0 of epoch 4", 1),
    "the driver, before the sink": ("driver", "delivering epoch 4", 1),
    "the driver, before the commit record": ("driver", f"create records/{4:020d}", 1),
    "the driver, after the commit record": ("driver", "Spark's commit of epoch 4", 1),
    "the driver, before the record of a flip": ("driver", f"create records/{FLIP:020d}", 1),
    "the driver, after the record of a flip": ("driver", f"Spark's commit of epoch {FLIP}", 1),
    "a destination, in a copy": ("executor 2", "a transaction", 6),
    "a destination, in its flip": ("executor 2", f"sending its summary of epoch {FLIP}", 1),
    "a source, in a flip": ("executor 0", f"sending its summary of epoch {FLIP}", 1),
    "an executor, in a snapshot": ("executor", "finish snapshots/", 2),
    "the driver, in a manifest": ("driver", "put manifests/", 2),
    "the driver, in a collection": ("driver", "delete deltas/", 2),
    "the driver, before a target": ("driver", "create targets/", 1),
    "the driver, after a target": ("driver", "list targets/", 3),
    "the driver, opening the log": ("driver", "create terms/", 1),
}


@pytest.mark.parametrize("named", PLACES)
def test_a_process_dies(named: str) -> None:
    """A kill at a named place leaves output, state and log as they would be without it."""
    who, what, occurrence = PLACES[named]
    cluster = fixed(place(who, what, occurrence, Fault.KILL))
    assert len(cluster.world.faults.struck) == 1, "this point no longer exists"
