"""Many processes that create the same file at the same moment; run as a separate program.

One interpreter imports everything and then forks, before obstore has started a thread: fifty interpreters would take a
minute to start on two cores, and would not start together. Usage: ``log_race.py RACERS NAME URL OPTIONS-AS-JSON``; prints
one line for each process: its number, whether it won, and what it read afterwards.
"""

from __future__ import annotations

import json
import os
import sys

from binshift.log.storage import local_files, object_store
from binshift.log.storage.opening import open_storage

assert local_files
assert object_store


def main(racers: int, name: str, url: str, options: dict[str, str]) -> None:
    """Fork, release all processes at once, wait for all."""
    waiting, go = os.pipe()
    for me in range(racers):
        if os.fork() == 0:
            os.close(go)
            os.read(waiting, 1)  # returns in all processes when the last writing end is closed
            storage = open_storage(url, options)
            won = storage.put_if_absent(name, b"racer %d" % me)
            os.write(1, f"{me} {int(won)} {storage.get(name).decode()}\n".encode())
            os._exit(0)
    os.close(go)
    for _ in range(racers):
        assert os.wait()[1] == 0


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
