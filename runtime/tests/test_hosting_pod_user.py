"""A pod may run as any user: Spark's processes get a name for it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from binshift.errors import InvalidSettings
from binshift.hosting.pod import daemons, user

NOBODY = 1_234_567
"""A user without a name on every machine."""


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is that user."""
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)
    monkeypatch.setattr(os, "getgid", lambda: 0)


def library(folder: Path) -> str:
    """A file with the name of the library."""
    (folder / "x86").mkdir()
    (folder / "x86" / "libnss_wrapper.so").write_bytes(b"")
    return str(folder / "*" / "libnss_wrapper.so")


def test_a_user_with_a_name_needs_nothing(tmp_path: Path) -> None:
    """If the system knows the user's name, the environment does not change."""
    assert user.variables(tmp_path, library(tmp_path), tmp_path) == {}


@pytest.mark.usefixtures("nameless")
def test_a_user_without_a_name_gets_one(tmp_path: Path) -> None:
    """The list of users has the image's users, and this one with its number, group and home."""
    found = user.variables(tmp_path, library(tmp_path), tmp_path)
    lines = Path(found["NSS_WRAPPER_PASSWD"]).read_text(encoding="utf-8").splitlines()
    assert lines[:-1] == Path("/etc/passwd").read_text(encoding="utf-8").splitlines()
    assert lines[-1] == f"binshift-{NOBODY}:x:{NOBODY}:0:binshift:{tmp_path}:/usr/sbin/nologin"
    assert found["LD_PRELOAD"] == str(tmp_path / "x86" / "libnss_wrapper.so")
    assert (found["USER"], found["LOGNAME"], found["HOME"]) == (f"binshift-{NOBODY}",) * 2 + (str(tmp_path),)


@pytest.mark.usefixtures("nameless")
def test_a_list_without_a_last_line_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image's last user and this one have separate lines."""
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/sh", encoding="utf-8")
    monkeypatch.setattr(user, "USERS", tmp_path / "passwd")
    found = user.variables(tmp_path, library(tmp_path), tmp_path)
    lines = Path(found["NSS_WRAPPER_PASSWD"]).read_text(encoding="utf-8").splitlines()
    assert [line.partition(":")[0] for line in lines] == ["root", f"binshift-{NOBODY}"]


@pytest.mark.usefixtures("nameless")
def test_the_list_is_there_as_a_whole(tmp_path: Path) -> None:
    """Master, worker and program may share a folder: a reader sees the complete list while another process rewrites it."""
    found = user.variables(tmp_path, library(tmp_path), tmp_path)
    with Path(found["NSS_WRAPPER_PASSWD"]).open(encoding="utf-8") as read:
        assert user.variables(tmp_path, str(tmp_path / "*" / "libnss_wrapper.so"), tmp_path) == found
        (tmp_path / "binshift-passwd").write_text("", encoding="utf-8")
        assert f"binshift-{NOBODY}" in read.read()
    assert {path.name for path in tmp_path.iterdir()} == {"binshift-passwd", "x86"}


@pytest.mark.usefixtures("nameless")
def test_an_image_without_the_library_is_told_of(tmp_path: Path) -> None:
    """Instead of an error from inside Java, the error names what the image lacks and the alternative."""
    with pytest.raises(InvalidSettings, match=f"user {NOBODY} .* libnss-wrapper.*securityContext"):
        user.variables(tmp_path, str(tmp_path / "none"), tmp_path)


@pytest.mark.usefixtures("nameless")
def test_daemons_start_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Master, worker and all executors are started with the name; the pod's own settings for home and user take precedence."""
    monkeypatch.setattr(user, "LIBRARIES", library(tmp_path))
    monkeypatch.setattr(user, "USERS", tmp_path / "passwd")
    (tmp_path / "passwd").write_text("", encoding="utf-8")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = daemons.daemon_environment({"HOME": "/", "BINSHIFT_DIRECTORY": str(tmp_path)}, "host", "")
    assert (found["USER"], found["HOME"]) == (f"binshift-{NOBODY}", str(tmp_path))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_this_is_what_a_nameless_user_meets() -> None:
    """For a process whose number has no name, `pwd` raises the error that the module relies on."""
    program = f"import os, pwd; os.setuid({NOBODY}); pwd.getpwuid(os.getuid())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "KeyError" in done.stderr
    assert pwd.getpwuid(0).pw_name == "root"
