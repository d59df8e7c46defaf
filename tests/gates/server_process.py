"""A server process of its own for gates that need two: options on stdin as one JSON line, its address on stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from graphsvc.app import Serving, serve
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.settings import WriteAcknowledgement
from tests.gates.mutants import apply_from_environment
from tests.support.service import service_settings


def main() -> None:
    """Serves until it is told to stop."""
    apply_from_environment()
    options = json.loads(sys.stdin.readline())
    settings = service_settings(
        Path(options["state_dir"]),
        s3_bucket=options["s3_bucket"],
        write_acknowledgement=WriteAcknowledgement.COLD,
    )

    def ready(running: Serving) -> None:
        print(json.dumps({"target": running.target}), flush=True)

    asyncio.run(serve(settings, StackEndpoints(**options["endpoints"]), ready))


if __name__ == "__main__":
    main()
