"""The process that owns Neo4j and the S3 server, so that none of them outlives who asked for them.

A stack starts it with a pipe as its standard input and tells it what to run, one JSON object a line. When the pipe
closes, for whatever reason (an orderly end, Ctrl-C, SIGTERM, kill -9 of the stack's process), it ends its children by
their own pid: SIGTERM, a wait, SIGKILL. A pipe works on every POSIX system, and cannot be missed like a signal.

It imports nothing of graphsvc and stays small (some 15 MB). It also holds the state directory's lock, so that a new
stack waits until the old one's children are gone.

Commands: ``{"op": "start", "name", "argv", "env", "cwd", "log", "stop_timeout_s", "nice", "rename": [from, to]}``,
``{"op": "stop"}``. Events: ``{"event": "started", "name", "pid"}``, ``{"event": "failed", "name", "error"}``,
``{"event": "exited", "name", "code"}``, ``{"event": "stopped"}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

POLL_S = 0.2
"""Seconds between two looks at the children and at the parent."""


class Watchdog:
    """Owner of the stack's processes.

    Args:
        record_path: file that names the running children, for the start after a kill -9 of this process too.
    """

    def __init__(self, record_path: Path) -> None:
        self._record_path = record_path
        self._children: dict[str, tuple[subprocess.Popen[bytes], dict[str, Any]]] = {}
        self._parent = os.getppid()
        self._told = True
        self.ending = False

    def run(self) -> None:
        """Works until told to stop, until the pipe closes, or until the parent is another process."""
        self._write_record()
        buffer = b""
        while not self.ending:
            readable, _, _ = select.select([0], [], [], POLL_S)
            if readable:
                chunk = os.read(0, 65536)
                if not chunk:
                    break
                buffer += chunk
                while b"\n" in buffer:
                    line, buffer = buffer.split(b"\n", 1)
                    command = json.loads(line)
                    if command["op"] == "stop":
                        self.ending = True
                        break
                    self._start(command)
            self._reap()
            # A process forked from the stack's may hold the pipe open after its death.
            if os.getppid() != self._parent:
                break
        self.stop()

    def _start(self, command: dict[str, Any]) -> None:
        try:
            with Path(command["log"]).open("ab") as log:
                process = subprocess.Popen(
                    command["argv"],
                    env=command["env"],
                    cwd=command["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # A terminal's Ctrl-C reaches the stack, which ends its children in order.
                    start_new_session=True,
                )
        except OSError as error:
            self._tell({"event": "failed", "name": command["name"], "error": str(error)})
            return
        if command.get("nice"):
            with contextlib.suppress(psutil.Error, OSError):
                psutil.Process(process.pid).nice(command["nice"])
        self._children[command["name"]] = (process, command)
        self._write_record()
        self._tell({"event": "started", "name": command["name"], "pid": process.pid})

    def _reap(self) -> None:
        gone = [name for name, (process, _) in self._children.items() if process.poll() is not None]
        for name in gone:
            process, command = self._children.pop(name)
            self._finish(process, command)
            self._tell({"event": "exited", "name": name, "code": process.returncode})
        if gone:
            self._write_record()

    @staticmethod
    def _finish(process: subprocess.Popen[bytes], command: dict[str, Any]) -> None:
        """Puts what the process made in its place if it ended well, else throws it away."""
        if not command.get("rename"):
            return
        source, target = (Path(path) for path in command["rename"])
        with contextlib.suppress(OSError):
            if process.returncode == 0:
                source.replace(target)
            else:
                source.unlink()

    def stop(self) -> None:
        """Ends every child: SIGTERM to all, then a wait for each, then SIGKILL."""
        for process, command in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM if command["stop_timeout_s"] else signal.SIGKILL)
        for process, command in self._children.values():
            try:
                process.wait(max(command["stop_timeout_s"], 5))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._finish(process, command)
        self._children.clear()
        self._record_path.unlink(missing_ok=True)
        self._tell({"event": "stopped"})

    def _tell(self, event: dict[str, Any]) -> None:
        if not self._told:
            return
        try:
            os.write(1, json.dumps(event).encode() + b"\n")
        except OSError:
            # Nobody listens any more; the children still have to be ended.
            self._told = False

    def _write_record(self) -> None:
        pids = {"watchdog": (os.getpid(), str(self._record_path))}
        pids.update({name: (process.pid, command["marker"]) for name, (process, command) in self._children.items()})
        entries: list[dict[str, Any]] = []
        for name, (pid, marker) in pids.items():
            with contextlib.suppress(psutil.Error):
                entries.append(
                    {"name": name, "pid": pid, "create_time": psutil.Process(pid).create_time(), "marker": marker}
                )
        partial = self._record_path.with_suffix(".part")
        partial.write_text(json.dumps({"written": time.time(), "processes": entries}), encoding="utf-8")
        partial.replace(self._record_path)


def main() -> None:
    """Runs until the parent goes. The one argument is the path of the record."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watchdog = Watchdog(Path(sys.argv[1]))

    def on_sigterm(_number: int, _frame: object) -> None:
        watchdog.ending = True

    signal.signal(signal.SIGTERM, on_sigterm)
    watchdog.run()


if __name__ == "__main__":
    main()
