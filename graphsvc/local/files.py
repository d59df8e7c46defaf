"""Private files and free ports of a state directory."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from graphsvc.domain.errors import ErrorReason, LocalFault

LOOPBACK = "127.0.0.1"


def make_private_directory(path: Path) -> None:
    """The directory exists afterwards, for its owner only (mode 0700).

    Raises:
        LocalFault: LOCAL_STACK_FAILED when it cannot be made or belongs to another user.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.chmod(0o700)
    except OSError as error:
        raise LocalFault(
            ErrorReason.LOCAL_STACK_FAILED,
            f"cannot use the state directory {path} ({error.strerror}): set GRAPHSVC_STATE_DIR (or --state-dir) to a"
            " directory of your own",
        ) from error


def write_private(path: Path, text: str) -> None:
    """Writes the file atomically, readable by its owner only (mode 0600)."""
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)


def choose_ports(configured: Mapping[str, int], remembered: Mapping[str, int]) -> dict[str, int]:
    """A loopback port for each name: the configured one, else the remembered one if it is free, else any free one.

    Args:
        configured: port by name, in order; 0 means any. The name is the setting's.
        remembered: port by name of the last start.

    Raises:
        LocalFault: LOCAL_STACK_FAILED when a configured port is in use.
    """
    chosen: dict[str, int] = {}
    # Held until all are chosen, so that no two names get the same port.
    with contextlib.ExitStack() as held:
        for name, port in configured.items():
            if port:
                taken = _bind(port, held)
                if taken is None:
                    raise LocalFault(
                        ErrorReason.LOCAL_STACK_FAILED,
                        f"port {port} is in use by another process: set GRAPHSVC_{name.upper()} to a free port, or to 0"
                        " for any",
                        port=port,
                    )
                chosen[name] = taken
            else:
                earlier = remembered.get(name, 0)
                taken = _bind(earlier, held) if earlier else None
                taken = taken if taken is not None else _bind(0, held)
                if taken is None:
                    raise LocalFault(ErrorReason.LOCAL_STACK_FAILED, "no free port on the loopback interface")
                chosen[name] = taken
    return chosen


def _bind(port: int, held: contextlib.ExitStack) -> int | None:
    listener = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
    # As the servers do: a connection of the last run that is still closing does not count.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(1)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise
    return int(listener.getsockname()[1])


def last_lines(path: Path, count: int = 20, size_bytes: int = 16_384) -> str:
    """The end of a log file, indented; "(empty)" when there is none."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - size_bytes))
            lines = handle.read().decode("utf-8", "replace").splitlines()[-count:]
    except OSError:
        lines = []
    return "\n".join(f"  {line}" for line in lines) or "  (empty)"
