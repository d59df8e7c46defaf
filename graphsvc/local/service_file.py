"""Where a service runs on this machine, and with which key it is called: files of the state directory.

Apart from ``graphsvc.app``, so that a command that only calls the service need not load all that serves it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.local.files import write_private


def local_key_path(state_dir: Path) -> Path:
    """Where the local stack's API key is."""
    return state_dir / "api_key"


def service_path(state_dir: Path) -> Path:
    """Where a running `graphsvc up` says its address."""
    return state_dir / "service.json"


def read_service_target(state_dir: Path) -> str:
    """Address of the service that runs on this state directory, host:port.

    Raises:
        NotFound: GRAPH_UNAVAILABLE, none runs.
    """
    try:
        data = json.loads(service_path(state_dir).read_text(encoding="utf-8"))
        os.kill(int(data["pid"]), 0)
        return str(data["target"])
    except (OSError, ValueError, KeyError, TypeError):
        # No file, not a readable one, or its process is gone (PermissionError: its number is another user's now).
        raise NotFound(
            ErrorReason.GRAPH_UNAVAILABLE, f"no service runs on {state_dir}: start one with `graphsvc up`"
        ) from None


def write_service_file(state_dir: Path, target: str) -> None:
    """Says where the service is, for the command line on the same machine."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(service_path(state_dir), json.dumps({"target": target, "pid": os.getpid()}) + "\n")
