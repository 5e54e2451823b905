"""`binshift cancel [ID]`: stops a migration where it does no harm, or takes back what it has moved."""

from __future__ import annotations

from collections.abc import Sequence

from binshift.errors import NoSuchMigration
from binshift.running.options import as_json, opened, parser, write
from binshift.running.status import migration_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Cancel; returns the exit status."""
    parsing = parser("cancel", "Cancel a migration: bins stay where they are, or go back with --rollback.")
    parsing.add_argument("id", type=int, nargs="?", metavar="ID", help="which one (default: the one under way)")
    parsing.add_argument("--rollback", action="store_true", help="move back what has moved")
    given = parsing.parse_args(arguments)
    _, control = opened(given.run)
    number = given.id
    if number is None:
        newest = control.dataflow().migration
        if newest is None or newest.ended_at is not None or newest.phase in ("settled", "cancelled", "failed"):
            raise NoSuchMigration("nothing moves now; `binshift migrations` lists what has moved")
        number = newest.id
    migration = control.cancel(number, rollback=given.rollback)
    if given.output == "json":
        write(as_json({"migration": migration}))
    else:
        write("nothing to cancel" if migration is None else migration_text(migration))
    return 0
