"""The folder shared by a run and the commands: the process, the address of its control API, the desired number of workers.

    $XDG_RUNTIME_DIR/binshift/        (or binshift-UID in the folder for temporary files); mode 0700
        clicks-4711/                  one run
            alive                     locked for as long as `binshift run` lives, however it ends
            run.json                  the program, and the control API with its token; mode 0600
            desired-scale.json        the desired scale; every change is a higher generation
            scale-status.json         the supervisor's status of it

Files are replaced as a whole, so a reader sees the old one or the new one. Nothing here decides anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from binshift.errors import InvalidSettings, NoRun
from binshift.model import Worker

NAME_CHARACTERS_MAX: Final = 40
HOW_TO_START: Final = "start one with `binshift run app.py --workers 2`"


class Run(msgspec.Struct, frozen=True):
    """Who runs.

    Attributes:
        name: of the run.
        pid: of `binshift run`.
        program: the user's.
        cluster: the folder with the cluster's logs.
        token: opens the control API.
        url: of the control API; None until the program's process has started it.
        recorded: workers that hold the bins by the checkpoint's log; known once the program starts its query.
        authority: file with that of the API's certificate; None if it has none.
    """

    name: str
    pid: int
    program: str
    cluster: str
    token: str
    url: str | None = None
    recorded: tuple[int, ...] = ()
    authority: str | None = None


class DesiredScale(msgspec.Struct, frozen=True):
    """The desired scale: slots ``0 .. count-1``, and how to get there (None: by the query's settings)."""

    generation: int
    count: int
    strategy: str | None = None
    batch_size: int | None = None
    pre_copy: bool | None = None


class ScaleStatus(msgspec.Struct, frozen=True):
    """What the supervisor made of a requested scale.

    Attributes:
        generation: of the requested scale.
        awaiting: what the next step waits for, one of `binshift.rescale.Awaiting`; empty if nothing.
        workers: those it waits for.
        refused: why the control API did not accept the target; empty if it did.
    """

    generation: int
    awaiting: str = ""
    workers: tuple[int, ...] = ()
    refused: str = ""


Kind = TypeVar("Kind", bound=msgspec.Struct)
_runs, _scales = msgspec.json.Decoder(Run), msgspec.json.Decoder(DesiredScale)
_statuses = msgspec.json.Decoder(ScaleStatus)


@dataclass(frozen=True)
class RunDirectory:
    """One run's folder."""

    path: Path

    @property
    def run(self) -> Run:
        """Who runs."""
        return self._read("run", _runs)

    @property
    def desired_scale(self) -> DesiredScale:
        """The desired scale."""
        return self._read("desired-scale", _scales)

    @property
    def scale_status(self) -> ScaleStatus | None:
        """The supervisor's status of it; None before its first step."""
        try:
            return self._read("scale-status", _statuses)
        except NoRun:
            return None

    def publish(self, url: str, authority: str | None = None) -> None:
        """The control API is at ``url``; ``authority``: see `Run`."""
        self._write("run", msgspec.structs.replace(self.run, url=url, authority=authority))

    @property
    def recorded(self) -> frozenset[Worker]:
        """Workers that an earlier run has left the bins with."""
        return frozenset(map(Worker, self.run.recorded))

    def publish_recorded(self, workers: frozenset[Worker]) -> None:
        """The query is about to start, and needs these workers for its first epoch."""
        self._write("run", msgspec.structs.replace(self.run, recorded=tuple(sorted(workers))))

    def set_status(self, status: ScaleStatus) -> None:
        """Keep ``status``."""
        self._write("scale-status", status)

    def request(
        self,
        count: int,
        strategy: str | None = None,
        batch_size: int | None = None,
        pre_copy: bool | None = None,
        above: int = 0,
    ) -> DesiredScale:
        """Request ``count`` workers, as a new generation that is higher than ``above`` and than the previous one."""
        with _locked(self.path / "scale.lock"):
            generation = max(self.desired_scale.generation, above) + 1
            scale = DesiredScale(generation, count, strategy, batch_size, pre_copy)
            self._write("desired-scale", scale)
        return scale

    def supersede(self, generation: int) -> DesiredScale:
        """Request the same scale again, with a number above ``generation``, which an earlier run has used."""
        with _locked(self.path / "scale.lock"):
            scale = self.desired_scale
            if scale.generation <= generation:
                scale = msgspec.structs.replace(scale, generation=generation + 1)
                self._write("desired-scale", scale)
        return scale

    def _read(self, name: str, decoder: msgspec.json.Decoder[Kind]) -> Kind:
        try:
            return decoder.decode((self.path / f"{name}.json").read_bytes())
        except FileNotFoundError:
            raise NoRun(f"the run {self.path.name} has just ended; {HOW_TO_START}") from None

    def _write(self, name: str, value: msgspec.Struct) -> None:
        part = self.path / f"{name}.{os.getpid()}.part"
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(msgspec.json.encode(value))
        part.replace(self.path / f"{name}.json")


def home(environment: Mapping[str, str]) -> Path:
    """Where this user's runs are.

    Raises:
        InvalidSettings: the folder is open to others, or theirs.
    """
    path = Path(tempfile.gettempdir(), f"binshift-{os.getuid()}")
    if (given := environment.get("XDG_RUNTIME_DIR")) and Path(given).is_dir():
        path = Path(given, "binshift")
    path.mkdir(mode=0o700, exist_ok=True)
    seen = path.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or stat.S_IMODE(seen.st_mode) & 0o077:
        raise InvalidSettings(
            f"{path} must be a folder that is yours and closed to others, as tokens are kept there: "
            f"remove it, or `chmod 700 {path}`"
        )
    return path


@contextlib.contextmanager
def create_run(
    program: Path, token: str, cluster: Path, workers: int, environment: Mapping[str, str]
) -> Iterator[RunDirectory]:
    """A folder for a new run; it is gone afterwards. What killed runs have left is removed too."""
    base = home(environment)
    for old in _folders(base):
        if not _alive(old):
            shutil.rmtree(old, ignore_errors=True)
    name = f"{program.stem[:NAME_CHARACTERS_MAX]}-{os.getpid()}"
    directory = RunDirectory(base / name)
    # Created under a name that readers ignore: a folder without its lock would seem abandoned.
    hidden = Path(tempfile.mkdtemp(prefix=".", dir=base))
    try:
        with _locked(hidden / "alive"):
            hidden.rename(directory.path)
            directory._write("desired-scale", DesiredScale(1, workers))
            directory._write("run", Run(name, os.getpid(), str(program), str(cluster), token))
            yield directory
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(directory.path, ignore_errors=True)


def find(environment: Mapping[str, str], name: str | None = None) -> RunDirectory:
    """The run of that name, or the only one there is.

    Raises:
        NoRun: there is none, or there are several and none was named.
    """
    alive = [each for each in _folders(home(environment)) if (each / "run.json").exists() and _alive(each)]
    names = ", ".join(each.name for each in alive)
    if name is not None:
        if found := [each for each in alive if each.name == name]:
            return RunDirectory(found[0])
        raise NoRun(f"no run is named {name!r}; running: {names or 'nothing'}")
    if len(alive) != 1:
        several = f"several are running: {names}; name one with --run NAME"
        raise NoRun(several if alive else f"nothing is running; {HOW_TO_START}")
    return RunDirectory(alive[0])


def _folders(base: Path) -> list[Path]:
    return sorted(each for each in base.iterdir() if each.is_dir() and not each.name.startswith("."))


def _alive(folder: Path) -> bool:
    """Whether the run holds its lock: true for as long as its process lives, whatever happens to process ids."""
    try:
        with (folder / "alive").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
