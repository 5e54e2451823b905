"""What to say about a dataflow: its status, from what is and from what was decided. Pure; nothing is decided by it.

`status` puts it together, `conditions` judges Ready, Progressing, Migrating and Degraded, `transitions` tells what changed.
"""

from binshift_operator.phases.conditions import Patience
from binshift_operator.phases.said import Said
from binshift_operator.phases.summary import status
from binshift_operator.phases.transitions import Told, transitions

__all__ = ["Patience", "Said", "Told", "status", "transitions"]
