"""What is measured against: a stack of its own, a server process, and a graph with hubs of 10,000 edges."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import lmdb
import psutil

from graphsvc.app import open_stores
from graphsvc.client import GraphsvcClient, RelationInput, UnitInput
from graphsvc.domain.tenancy import Role
from graphsvc.local.stack import LocalStack, StackEndpoints
from graphsvc.settings import Settings
from tests.support.server_process import running_server

WORD_LIST = """
token refresh login cache index queue session budget policy graph vector shard replica commit branch merge parser socket
timeout retry backoff ledger kernel thread buffer stream cursor schema tenant anchor planner outbox
"""
WORDS = tuple(WORD_LIST.split())
HUBS = 3
HUB_EDGES = 10_000
TASK_EVERY = 10
TASK_UNITS = 50
"""As many at every size of the graph: a larger one has more tasks, not larger ones."""
SESSION = "bench"


@dataclass(slots=True)
class Stack:
    """A running stack and a server process on it."""

    local: LocalStack
    endpoints: StackEndpoints
    settings: Settings
    api_key: str
    target: str
    server_pid: int


def rss_mb(pid: int) -> float:
    """Resident memory of a process, MiB."""
    return psutil.Process(pid).memory_info().rss / 2**20


def task_count(units: int) -> int:
    """Tasks of a graph of so many units."""
    return max(1, units // (TASK_EVERY * TASK_UNITS))


def unit_text(rng: random.Random, number: int) -> str:
    """About 60 tokens."""
    words = " ".join(rng.choices(WORDS, k=45))
    return f"Note {number}: {words}. See module_{number % 997} and case {rng.randrange(10**6)}."


def make_units(count: int, seed: int = 7) -> Iterator[UnitInput]:
    """Units with a heavy tail of typed edges to earlier ones; the first three are hubs of 10,000 edges in the end."""
    rng = random.Random(seed)
    kinds = ("observation", "decision", "tool_result", "state_snapshot", "progress_note")
    edge_types = ("dependency", "provenance", "causation")
    for number in range(count):
        targets: set[int] = set()
        if number >= HUBS:
            for hub in range(HUBS):
                if number < HUBS + HUB_EDGES and rng.random() < min(1.0, HUB_EDGES / count * 1.2):
                    targets.add(hub)
            targets.update(
                max(HUBS, number - 1 - int(rng.paretovariate(0.8))) for _ in range(rng.choice((1, 2, 2, 3, 5)))
            )
        targets.discard(number)
        yield UnitInput(
            kind=rng.choice(kinds),
            content=unit_text(rng, number),
            unit_key=f"u{number}",
            task_id=f"task-{number // (TASK_EVERY * TASK_UNITS)}" if number % TASK_EVERY == 0 else "",
            task_step=number % 500,
            relations=[
                RelationInput(rng.choice(edge_types), target_key=f"u{target}")
                for target in sorted(targets)
                if target < number
            ],
        )


@contextlib.asynccontextmanager
async def running_stack(**overrides: object) -> AsyncIterator[Stack]:
    """A stack in a temporary directory with a server process, until the block is left."""
    with tempfile.TemporaryDirectory(prefix="graphsvc-bench-") as folder:
        settings = Settings(
            state_dir=Path(folder) / "state",
            grpc_port=0,
            neo4j_heap_mb=2048,
            neo4j_pagecache_mb=1024,
            query_timeout_ms=10_000,
            write_timeout_ms=60_000,
            **overrides,  # pyright: ignore[reportArgumentType]
        )
        local = LocalStack(settings)
        endpoints = await asyncio.to_thread(local.start)
        try:
            async with open_stores(settings, endpoints) as stores:
                await stores.tenants.create_tenant("bench")
                _, api_key = await stores.registry.create_key("bench", "agent", frozenset(Role))
            async with running_server(settings, endpoints) as server:
                yield Stack(local, endpoints, settings, api_key, server.target, server.pid)
        finally:
            await asyncio.to_thread(local.stop)


async def fill(client: GraphsvcClient, first: int, count: int, total: int, batch: int = 1000) -> None:
    """Puts units number first to first + count of a world of so many."""
    pending: list[UnitInput] = []
    for number, unit in enumerate(make_units(total)):
        if not first <= number < first + count:
            continue
        pending.append(unit)
        if len(pending) == batch:
            await client.put(SESSION, pending)
            pending.clear()
    if pending:
        await client.put(SESSION, pending)


async def drained(settings: Settings) -> None:
    """Returns when S3 has every content: what is measured then is not beside the copying of what was written before."""
    environment = lmdb.open(str(settings.warm_path), max_dbs=4, readonly=True, create=False)
    try:
        outbox = environment.open_db(b"outbox", create=False)
        while True:
            with environment.begin(db=outbox) as transaction:
                if not transaction.stat(outbox)["entries"]:
                    return
            await asyncio.sleep(0.5)
    finally:
        environment.close()
