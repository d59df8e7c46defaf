"""The stack's side of the watchdog: start it, tell it what to run, and end what an earlier one left behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psutil

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local.progress import StackProgress

_CREATE_TIME_TOLERANCE_S = 2.0
"""A process whose start differs by more from the recorded one is another process with a reused pid."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to run.

    Attributes:
        name: its name in messages and in the record.
        argv: command line.
        env: whole environment; nothing is inherited.
        cwd: working directory.
        log: file that its output is appended to.
        marker: text in its command line that only this state directory's process has.
        stop_timeout_s: seconds between SIGTERM and SIGKILL; 0 is SIGKILL at once.
        nice: how much it gives way to others, 0 to 19.
        rename: a file that it makes, and the place it gets when the process ends with code 0.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    log: Path
    marker: str
    stop_timeout_s: float = 60.0
    nice: int = 0
    rename: tuple[Path, Path] | None = None


class Supervisor:
    """A running watchdog and the processes it owns.

    Args:
        state_dir: directory of the stack.
        lock: the state directory's locked file; the watchdog keeps the lock until its children are gone.
    """

    def __init__(self, state_dir: Path, lock: int) -> None:
        self._state_dir = state_dir
        self._changed = threading.Condition()
        self._pids: dict[str, int] = {}
        self._exit_codes: dict[str, int] = {}
        self._failures: dict[str, str] = {}
        self._ended = False
        # A file, not -m: it must start without importing graphsvc, and -P keeps its folder off the module path.
        script = Path(__file__).with_name("watchdog.py")
        with (state_dir / "logs" / "watchdog.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(record_path(state_dir))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=state_dir,
                pass_fds=(lock,),
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="watchdog-events", daemon=True).start()

    @property
    def pid(self) -> int:
        """The watchdog's own pid."""
        return self._process.pid

    @property
    def pids(self) -> dict[str, int]:
        """The pids of the processes that run, by name."""
        with self._changed:
            return {name: pid for name, pid in self._pids.items() if name not in self._exit_codes}

    def start(self, spec: ProcessSpec) -> int:
        """The pid of the process, once it runs.

        Raises:
            LocalFault: LOCAL_STACK_FAILED when it cannot be started.
        """
        command = {
            "op": "start",
            "name": spec.name,
            "argv": list(spec.argv),
            "env": dict(spec.env),
            "cwd": str(spec.cwd),
            "log": str(spec.log),
            "marker": spec.marker,
            "stop_timeout_s": spec.stop_timeout_s,
            "nice": spec.nice,
            "rename": [str(path) for path in spec.rename] if spec.rename else None,
        }
        with contextlib.suppress(OSError):
            # One run a file, and the run before it: a log never grows without bound.
            spec.log.replace(spec.log.with_name(f"{spec.log.name}.1"))
        with self._changed:
            self._exit_codes.pop(spec.name, None)
            self._pids.pop(spec.name, None)
            self._send(command)
            self._changed.wait_for(
                lambda: spec.name in self._pids or spec.name in self._failures or self._ended, timeout=30
            )
            if spec.name in self._pids:
                return self._pids[spec.name]
            cause = self._failures.pop(spec.name, "the watchdog ended")
        raise LocalFault(
            ErrorReason.LOCAL_STACK_FAILED,
            f"could not start {spec.argv[0]}: {cause}; see {self._state_dir / 'logs'}",
        )

    def exit_code(self, name: str) -> int | None:
        """The code that the process ended with (negative: the signal), or None while it runs."""
        with self._changed:
            if self._ended and name not in self._exit_codes:
                return -9
            return self._exit_codes.get(name)

    def stop(self, timeout_s: float = 90.0) -> None:
        """Returns when every process is gone, the watchdog too."""
        with contextlib.suppress(LocalFault):
            self._send({"op": "stop"})
        with contextlib.suppress(OSError):
            cast(Any, self._process.stdin).close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # It leaves no record when it ended its children itself.
        end_recorded(self._state_dir)

    def _send(self, command: dict[str, Any]) -> None:
        stdin = cast(Any, self._process.stdin)
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError) as error:
            raise LocalFault(
                ErrorReason.LOCAL_STACK_FAILED,
                f"the stack's watchdog is gone; stop this process and start again (log: {self._state_dir / 'logs'})",
            ) from error

    def _listen(self) -> None:
        for line in cast(Any, self._process.stdout):
            event = json.loads(line)
            with self._changed:
                match event["event"]:
                    case "started":
                        self._pids[event["name"]] = event["pid"]
                    case "exited":
                        self._exit_codes[event["name"]] = event["code"]
                    case "failed":
                        self._failures[event["name"]] = event["error"]
                    case _:
                        pass
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def record_path(state_dir: Path) -> Path:
    """Where the watchdog writes which processes it runs."""
    return state_dir / "processes.json"


def recorded_processes(state_dir: Path) -> list[psutil.Process]:
    """The processes in the state directory's record that still run and are the recorded ones.

    A pid alone proves nothing: after a crash or a restart of the machine another process may have it. So the start time
    and the command line must be the recorded ones as well.
    """
    try:
        entries = cast(
            list[dict[str, Any]], json.loads(record_path(state_dir).read_text(encoding="utf-8"))["processes"]
        )
    except (OSError, ValueError, KeyError):
        return []
    found: list[psutil.Process] = []
    for entry in entries:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(entry["pid"])
            same_start = abs(process.create_time() - entry["create_time"]) <= _CREATE_TIME_TOLERANCE_S
            if (
                same_start
                and process.status() != psutil.STATUS_ZOMBIE
                and any(entry["marker"] in part for part in process.cmdline())
            ):
                found.append(process)
    return found


def end_recorded(state_dir: Path, progress: StackProgress | None = None, timeout_s: float = 60.0) -> int:
    """How many processes an earlier watchdog had left running; they are ended, and the record is removed."""
    processes = recorded_processes(state_dir)
    if processes and progress:
        progress.say(f"Ending {len(processes)} process(es) that an earlier stack left behind")
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=10)
    record_path(state_dir).unlink(missing_ok=True)
    return len(processes)


class StateLock:
    """The lock of a state directory: one stack at a time uses it.

    Args:
        state_dir: an existing directory.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "stack.lock"
        self._state_dir = state_dir
        self.fd: int | None = None

    def acquire(self, progress: StackProgress, patience_s: float = 90.0) -> int:
        """The locked file descriptor.

        When the owner is gone and only its watchdog still ends the processes, this waits for that.

        Raises:
            LocalFault: STATE_DIR_IN_USE when another stack uses the directory; the message has its pid.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience_s
        told = False
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                owner = _read_owner(self._path)
                if owner is None or not _is_running(owner):
                    # The owner is gone or not yet written; what holds the lock is about to go or to say who it is.
                    if not told and owner is not None:
                        progress.say("An earlier stack on this state directory is still ending; waiting for it")
                        told = True
                    if time.monotonic() < deadline:
                        time.sleep(0.1)
                        continue
                os.close(fd)
                pid = owner["pid"] if owner else "unknown"
                raise LocalFault(
                    ErrorReason.STATE_DIR_IN_USE,
                    f"process {pid} runs a local stack on {self._state_dir}: stop it, or set GRAPHSVC_STATE_DIR (or"
                    " --state-dir) to another directory",
                    owner_pid=pid,
                ) from None
        os.ftruncate(fd, 0)
        me = psutil.Process()
        os.pwrite(fd, json.dumps({"pid": me.pid, "create_time": me.create_time()}).encode(), 0)
        self.fd = fd
        return fd

    def release(self) -> None:
        """Gives the directory back (the watchdog's copy of the lock goes with the watchdog)."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _read_owner(path: Path) -> dict[str, Any] | None:
    try:
        return cast(dict[str, Any], json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _is_running(owner: dict[str, Any]) -> bool:
    return process_is(int(owner["pid"]), float(owner["create_time"]))


def process_is(pid: int, create_time: float) -> bool:
    """Whether the process with this pid runs and is the one that was started then."""
    try:
        process = psutil.Process(pid)
        return (
            abs(process.create_time() - create_time) <= _CREATE_TIME_TOLERANCE_S
            and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False
