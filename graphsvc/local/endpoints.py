"""Where a stack's servers are, and how another process finds a running one."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from graphsvc.local.files import write_private
from graphsvc.local.supervisor import process_is


@dataclass(frozen=True, slots=True)
class StackEndpoints:
    """Addresses and credentials of the stores.

    Attributes:
        neo4j_uri: Bolt address.
        neo4j_user: user.
        neo4j_password: its password; empty where the database asks for none.
        http_url: address of Neo4j Browser and the HTTP API, without a path; None where it is not known.
        s3_endpoint: S3 address.
        s3_access_key: access key.
        s3_secret_key: secret key.
        neo4j_database: database name.
    """

    neo4j_uri: str
    neo4j_user: str
    neo4j_password: str = field(repr=False)
    http_url: str | None
    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str = field(repr=False)
    neo4j_database: str = "neo4j"


def _path(state_dir: Path) -> Path:
    return state_dir / "endpoints.json"


def publish_endpoints(state_dir: Path, endpoints: StackEndpoints) -> None:
    """Lets other processes of this user find the stack that this process runs (mode 0600)."""
    me = psutil.Process()
    owner = {"pid": me.pid, "create_time": me.create_time()}
    write_private(_path(state_dir), json.dumps({"owner": owner, "endpoints": asdict(endpoints)}) + "\n")


def withdraw_endpoints(state_dir: Path) -> None:
    """The stack is going."""
    with contextlib.suppress(OSError):
        _path(state_dir).unlink()


def running_endpoints(state_dir: Path) -> StackEndpoints | None:
    """The endpoints of the stack that runs on this state directory, or None when none does."""
    try:
        raw = json.loads(_path(state_dir).read_text(encoding="utf-8"))
        owner = raw["owner"]
        if not process_is(int(owner["pid"]), float(owner["create_time"])):
            return None
        return StackEndpoints(**raw["endpoints"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
