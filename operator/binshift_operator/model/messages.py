"""Parts of messages: cut texts, durations and lists of slots."""

from __future__ import annotations

from typing import Final

MESSAGE_CHARACTERS_MAX: Final = 1024
CUT: Final = "..."


def truncate(text: str, most: int = MESSAGE_CHARACTERS_MAX) -> str:
    """A text of at most so many characters; of a long one the beginning (what happened) and the end (where) are kept.

    >>> truncate("abcdefgh", 7)
    'ab...gh'
    """
    text = text.strip()
    if len(text) <= most:
        return text
    kept = most - len(CUT)
    return text[: kept // 2] + CUT + text[len(text) - (kept - kept // 2) :]


def format_duration(seconds: float) -> str:
    """Whole minutes, so that a message changes at most once a minute; empty below one.

    >>> format_duration(150), format_duration(59)
    (' for 2 min', '')
    """
    minutes = int(seconds) // 60
    return f" for {minutes} min" if minutes else ""


def format_first(slots: frozenset[int]) -> str:
    """The first slots, and the number of the others.

    >>> format_first(frozenset({3, 1})), format_first(frozenset(range(100)))
    ('1, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 92 more')
    """
    first = ", ".join(map(str, sorted(slots)[:8]))
    return first if len(slots) <= 8 else f"{first} and {len(slots) - 8} more"
