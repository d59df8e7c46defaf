"""kill -9 of processes that write content, and two processes on one LMDB directory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsvc.domain.units import Tier
from graphsvc.ports import ContentKey
from tests.support.s3_server import S3Server, s3_server
from tests.support.tier_case import (
    BUCKET,
    content_of,
    key_of,
    object_name,
    open_tiers,
    some_contents,
    until,
    until_drained,
)

ROOT = Path(__file__).parents[2]


class Writer:
    """A running tier_writer.py."""

    def __init__(self, directory: Path, seed: str, *, count: int, batch: int, size: int, s3: S3Server | None) -> None:
        self.seed, self.size = seed, size
        store = [s3.endpoint, s3.access_key, s3.secret_key] if s3 else []
        arguments = [str(directory), seed, str(count), str(batch), str(size), *store]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.tier_writer", *arguments],
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith(("GRAPHSVC_", "AWS_"))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """The next line; fails with the process's own words when it has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        return line

    def until_done(self) -> None:
        while self.line() != "done":
            pass

    def kill(self) -> int:
        """Ends it with SIGKILL; returns how many contents it had acknowledged."""
        assert self.process.stdout is not None
        self.process.kill()
        rest = self.process.stdout.read().split()
        self.process.communicate()
        return int(rest[-1]) if rest and rest[-1].isdigit() else 0

    def finish(self) -> None:
        """Lets it close its store."""
        _, errors = self.process.communicate("")
        assert self.process.returncode == 0, errors

    def contents(self, count: int) -> dict[ContentKey, bytes]:
        names = [f"{self.seed}{index}" for index in range(count)]
        return {key_of(name, c): c for name, c in ((name, content_of(name, self.size)) for name in names)}


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path / "s3") as server:
        yield server


async def test_every_acknowledged_content_survives_kill_9(tmp_path: Path) -> None:
    acknowledged: dict[ContentKey, bytes] = {}
    randomness = random.Random(7)
    for number in range(20):
        batch, size = randomness.choice([(1, 100), (3, 5000), (20, 1000), (2, 2**20)])
        writer = Writer(tmp_path, f"k{number}-", count=100_000 * batch, batch=batch, size=size, s3=None)
        count = 0
        for _ in range(randomness.randint(1, 12)):
            count = int(writer.line())
        acknowledged |= writer.contents(max(count, writer.kill()))
    async with open_tiers(tmp_path, hot_bytes=0) as store:
        keys = list(acknowledged)
        for start in range(0, len(keys), 100):
            page = keys[start : start + 100]
            assert await store.get(page) == {key: acknowledged[key] for key in page}
        # and each is on its way to S3
        pending = {entry.key for entry in await store.warm.list_outbox(10**6)}
        assert set(acknowledged) <= pending
        # what was not acknowledged is whole or absent: every content listed reads back
        listed = await store.list_keys(Tier.WARM, None, 10**6)
        assert {stored.key for stored in listed} == pending


async def test_kill_9_while_draining_loses_nothing(tmp_path: Path, s3: S3Server) -> None:
    acknowledged: dict[ContentKey, bytes] = {}
    for number in range(3):
        writer = Writer(tmp_path, f"d{number}-", count=100, batch=20, size=500, s3=s3)
        writer.until_done()
        writer.kill()
        acknowledged |= writer.contents(100)
    async with open_tiers(
        tmp_path, endpoint=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, hot_bytes=0
    ) as store:
        await until_drained(store, 60)
        assert s3.names(BUCKET) == sorted(map(object_name, acknowledged))
        assert await store.get(list(acknowledged)) == acknowledged


async def test_two_processes_write_read_grow_and_drain_one_directory(tmp_path: Path, s3: S3Server) -> None:
    access = {"endpoint": s3.endpoint, "access_key": s3.access_key, "secret_key": s3.secret_key}
    async with open_tiers(tmp_path, lmdb_map_mb=16, hot_bytes=0, **access) as store:
        mine = some_contents(100, seed="m")
        await store.put(mine)
        writer = Writer(tmp_path, "w", count=40, batch=4, size=2**20, s3=s3)
        alongside: dict[ContentKey, bytes] = {}
        turn = 0
        while writer.line() != "done":
            more = some_contents(10, seed=f"m{turn}-")
            await store.put(more)
            alongside |= more
            turn += 1
        # the other process has grown the map; reads and writes follow it
        theirs = writer.contents(40)
        assert await store.get(list(theirs)) == theirs
        await store.delete(list(theirs)[:5])
        await store.put(some_contents(1, seed="after"))
        everything = {**mine, **alongside, **theirs, **some_contents(1, seed="after")}
        for key in list(theirs)[:5]:
            del everything[key]
        await until_drained(store, 60)
        assert s3.names(BUCKET) == sorted(map(object_name, everything))
        writer.finish()
        assert await store.get(list(everything)) == everything


async def test_another_process_drains_when_the_one_that_did_is_killed(tmp_path: Path, s3: S3Server) -> None:
    first = Writer(tmp_path, "f", count=10, batch=10, size=100, s3=s3)
    first.until_done()
    async with open_tiers(
        tmp_path, endpoint=s3.endpoint, access_key=s3.access_key, secret_key=s3.secret_key, write_acknowledgement="cold"
    ) as store:
        # the first holds the lock: what this one writes is drained by it
        contents = some_contents(5, seed="one")
        await store.put(contents)
        assert set(map(object_name, contents)) <= set(s3.names(BUCKET))
        assert store.cold.request_count == 0
        first.kill()
        contents = some_contents(5, seed="two")
        await store.put(contents)
        assert set(map(object_name, contents)) <= set(s3.names(BUCKET))
        assert store.cold.request_count >= 5


async def test_readers_that_were_killed_do_not_keep_pages(tmp_path: Path) -> None:
    async with open_tiers(tmp_path, lmdb_map_mb=16, lmdb_map_max_mb=16, hot_bytes=0) as store:
        reader = subprocess.Popen(
            [sys.executable, "-c", STUCK_READER, str(tmp_path / "warm")], stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        reader.kill()
        reader.wait()
        reader.stdout.close()
        # many times the map's size goes through it
        for number in range(40):
            contents = some_contents(2, size=2**20, seed=f"r{number}-")
            await store.put(contents)
            await store.delete(list(contents))

        async def empty() -> bool:
            return not await store.list_keys(Tier.WARM, None, 10)

        await until(empty)


STUCK_READER = """
import lmdb, sys, time
environment = lmdb.open(sys.argv[1], max_dbs=4)
content = environment.open_db(b"content", create=False)
with environment.begin(db=content) as transaction:
    transaction.get(b"x")
    print("reading", flush=True)
    time.sleep(600)
"""
