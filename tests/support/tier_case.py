"""What the tests of the tiers share: a clock that stands still, contents, a store on a directory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from graphsvc.ports import ContentKey
from graphsvc.settings import Settings
from graphsvc.tiers.store import ContentTiers, open_tier_store

BUCKET = "content"
NOWHERE = "http://127.0.0.1:9"
"""An endpoint where nothing listens."""


class SettableClock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class WallClock:
    """The machine's time."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def content_of(unit_id: str, size: int = 200) -> bytes:
    """The content a test gives a unit: always the same, and text."""
    line = hashlib.sha256(unit_id.encode()).hexdigest().encode()
    return (line * (size // len(line) + 1))[:size]


def key_of(unit_id: str, content: bytes, tenant_id: str = "acme") -> ContentKey:
    return ContentKey(tenant_id, unit_id, hashlib.sha256(content).hexdigest())


def some_contents(count: int, size: int = 200, tenant_id: str = "acme", seed: str = "u") -> dict[ContentKey, bytes]:
    """Contents of ``count`` units."""
    contents: dict[ContentKey, bytes] = {}
    for index in range(count):
        content = content_of(f"{seed}{index}", size)
        contents[key_of(f"{seed}{index}", content, tenant_id)] = content
    return contents


def random_unit_id() -> str:
    return f"r{random.getrandbits(48):012x}"


def object_name(key: ContentKey, prefix: str = "") -> str:
    return f"{prefix}{key.tenant_id}/{key.content_sha256[:2]}/{key.unit_id}/{key.content_sha256}"


@contextlib.asynccontextmanager
async def open_tiers(
    path: Path,
    *,
    endpoint: str = NOWHERE,
    access_key: str = "unused-access-key",
    secret_key: str = "unused-secret-key",
    clock: SettableClock | WallClock | None = None,
    **overrides: object,
) -> AsyncIterator[ContentTiers]:
    """A started store on a directory, closed when the block is left."""
    values = {"state_dir": path, "lmdb_path": path / "warm", "s3_bucket": BUCKET, "lmdb_map_mb": 64, **overrides}
    store = open_tier_store(
        Settings(**values),
        s3_endpoint=endpoint,
        s3_access_key=access_key,
        s3_secret_key=secret_key,
        clock=clock or WallClock(),
    )
    await store.start()
    try:
        yield store
    finally:
        await store.aclose()


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 20.0) -> None:
    """Returns when the condition holds.

    Raises:
        TimeoutError: it never did.
    """
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.02)


async def until_drained(store: ContentTiers, timeout_s: float = 20.0) -> None:
    """Returns when S3 has everything."""

    async def drained() -> bool:
        return (await store.backlog()).pending_count == 0

    await until(drained, timeout_s)
