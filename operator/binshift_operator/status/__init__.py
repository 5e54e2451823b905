"""The status of a dataflow, computed from the observed state and the decision's explanation. Pure; decides nothing.

`summary` assembles it, `conditions` and `degraded` compute the conditions, `transitions` lists the events of a change.
"""

from binshift_operator.status.summary import compute_status, count_holding_slots
from binshift_operator.status.transitions import EventRecord, transitions

__all__ = ["EventRecord", "compute_status", "count_holding_slots", "transitions"]
