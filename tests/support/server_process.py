"""A server in a process of its own, to be measured, killed, or met twice on one database.

``python -m tests.support.server_process`` reads its configuration as one JSON line, says its address as another, and
ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

from graphsvc.local.endpoints import StackEndpoints
from graphsvc.settings import Settings


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server process that answers."""

    target: str
    process: Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def kill(self) -> None:
        """kill -9; returns when it is gone."""
        self.process.kill()
        await self.process.wait()


async def start_server(settings: Settings, endpoints: StackEndpoints, *, show_log: bool = False) -> ServerProcess:
    """A server process, once it is SERVING; the caller ends it.

    Raises:
        RuntimeError: it ended before; run with ``show_log`` to see why.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.server_process",
        stdin=PIPE,
        stdout=PIPE,
        stderr=None if show_log else DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    config = {"settings": settings.model_dump(mode="json", exclude_unset=True), "endpoints": asdict(endpoints)}
    process.stdin.write(json.dumps(config).encode() + b"\n")
    await process.stdin.drain()
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"the server ended with {await process.wait()} before it answered")
    return ServerProcess(json.loads(line)["target"], process)


@contextlib.asynccontextmanager
async def running_server(settings: Settings, endpoints: StackEndpoints) -> AsyncIterator[ServerProcess]:
    """A server process until the block is left."""
    server = await start_server(settings, endpoints)
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            server.process.terminate()
        await server.process.wait()


def main() -> None:
    from graphsvc.app import Serving, serve
    from tests.gates.mutants import apply_from_environment

    apply_from_environment()
    config = json.loads(sys.stdin.readline())

    def ready(running: Serving) -> None:
        print(json.dumps({"target": running.target}), flush=True)
        # Nobody reads on: a full pipe would hold up the event loop at the next log line.
        os.dup2(2, 1)

    asyncio.run(serve(Settings(**config["settings"]), StackEndpoints(**config["endpoints"]), ready))


if __name__ == "__main__":
    main()
