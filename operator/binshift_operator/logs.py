"""Logs as JSON, one object a line, on standard output; a dataflow's name is a field of its own."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

FIELDS = ("dataflow", "reason")


class JsonFormatter(logging.Formatter):
    """One record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in FIELDS if isinstance(getattr(record, name, None), str)},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(level: str) -> None:
    """Have everything logged so, from this level on; Kopf and urllib3 from warnings on, as they tell of every request."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for talkative in ("kopf", "kubernetes", "urllib3", "aiohttp"):
        logging.getLogger(talkative).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
