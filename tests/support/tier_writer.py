"""A process that writes contents until it is told to stop or is killed.

python tier_writer.py DIRECTORY SEED COUNT BATCH SIZE [ENDPOINT ACCESS_KEY SECRET_KEY]

After each put has returned it prints the number of contents written so far: what a caller would have been told. After
the last one it prints "done" and stays until its input ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from graphsvc.telemetry import configure_logging
from tests.support.tier_case import NOWHERE, content_of, key_of, open_tiers


async def main(arguments: list[str]) -> None:
    directory, seed, count, batch, size = arguments[0], arguments[1], *map(int, arguments[2:5])
    endpoint, access_key, secret_key = arguments[5:8] or (NOWHERE, "unused-access-key", "unused-secret-key")
    async with open_tiers(
        Path(directory), endpoint=endpoint, access_key=access_key, secret_key=secret_key, lmdb_map_mb=16
    ) as store:
        for start in range(0, count, batch):
            names = [f"{seed}{index}" for index in range(start, start + batch)]
            contents = [content_of(name, size) for name in names]
            await store.put({key_of(name, content): content for name, content in zip(names, contents, strict=True)})
            print(start + batch, flush=True)
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    configure_logging()  # to stderr: stdout is for what was acknowledged
    asyncio.run(main(sys.argv[1:]))
