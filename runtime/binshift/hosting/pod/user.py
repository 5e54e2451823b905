"""A name for the user that a pod runs as, where the image knows none: a cluster may give a pod any number for its user.

Hadoop, and therefore every Spark process, asks Java for the user, and Java asks the system for the user's name; if there is
none, they end. The root file system is read-only, so a library of the image provides it (nss_wrapper), with a list that
includes this user. If the user has a name, as on a runtime that adds an entry itself, nothing is done.
"""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Final

from binshift.errors import InvalidSettings

LIBRARIES: Final = "/usr/lib/*/libnss_wrapper.so"
USERS: Final = Path("/etc/passwd")
GROUPS: Final = Path("/etc/group")
NAME: Final = "binshift"


def variables(home: Path, libraries: str = "", folder: Path | None = None) -> Mapping[str, str]:
    """What the environment of Spark's processes needs so that this user has a name; nothing if it has one.

    Args:
        home: its home, a writable folder.
        libraries: possible places of nss_wrapper; `LIBRARIES` by default.
        folder: for the list of users; the system's for temporary files if none is named.

    Raises:
        InvalidSettings: the user has no name, and the image lacks the library.
        OSError: the list cannot be written.
    """
    user, group = os.getuid(), os.getgid()
    if _has_name(user):
        return {}
    found = glob(libraries or LIBRARIES)
    if not found:
        raise InvalidSettings(
            f"user {user} has no name in this image, which Spark's processes need: build it FROM binshift's spark image, "
            "which has libnss-wrapper, or run the pod as user 10001 (pod.securityContext)"
        )
    users = (folder or Path(tempfile.gettempdir())) / "binshift-passwd"
    known = USERS.read_text(encoding="utf-8").splitlines()
    known.append(f"{NAME}-{user}:x:{user}:{group}:{NAME}:{home}:/usr/sbin/nologin")
    aside = users.with_name(f"{users.name}.{os.getpid()}")
    aside.write_text("".join(f"{line}\n" for line in known), encoding="utf-8")
    aside.replace(users)  # others may be reading it
    return {
        "LD_PRELOAD": " ".join(filter(None, [found[0], os.environ.get("LD_PRELOAD")])),
        "NSS_WRAPPER_PASSWD": str(users),
        "NSS_WRAPPER_GROUP": str(GROUPS),
        "USER": f"{NAME}-{user}",
        "LOGNAME": f"{NAME}-{user}",
        "HOME": str(home),
    }


def _has_name(user: int) -> bool:
    try:
        return bool(pwd.getpwuid(user).pw_name)
    except KeyError:
        return False
