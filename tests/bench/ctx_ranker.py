"""graphsvc as a ranker of ctxbench: ingests a corpus into the real service and answers through gRPC retrieve.

``build(corpus)`` is given units (id, text, kind, session, timestamp, typed links) and nothing of the questions; the
ranker it returns is given a question's text and a budget. Every corpus has a tenant of its own, every question and
budget a session of its own, and no outcome is reported, so nothing is learned from one question for the next.

How the data map: a turn or a passage is an observation, code a state_snapshot with its file as path. The place in the
session is the task_step; ``follows`` is that order and no edge. ``contains`` is provenance, every other link a
dependency with its name as role.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import signal
import threading
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from graphsvc.app import open_stores
from graphsvc.client import EdgeInput, GraphsvcClient, RelationInput, UnitInput
from graphsvc.domain.content import fence
from graphsvc.domain.tenancy import Role
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ranking.tokens import TiktokenCounter
from graphsvc.settings import Settings
from tests.bench.world import Stack, running_stack

MODEL = "gpt-4"
"""Its tokenizer is cl100k_base, with which the harness counts."""
CONCURRENT_WRITES = 8
WRITE_BATCH = 500
ORDER_LINK = "follows"
T = TypeVar("T")


class Unit(Protocol):
    """What is used of a unit of the harness."""

    id: str
    text: str
    kind: str
    session: str
    timestamp: str | None
    links: tuple[tuple[str, str], ...]

    def rendered(self) -> str: ...


class Corpus(Protocol):
    """What is used of a corpus."""

    corpus_id: str
    units: list[Unit]


class Query(Protocol):
    """What is used of a question."""

    id: str
    text: str


class Loop:
    """An event loop in a thread of its own, with one stack and one server for all corpora."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = contextlib.AsyncExitStack()
        self.stack: Stack = self.run(self._start())
        atexit.register(self.stop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> Stack:
        return await self._stack.enter_async_context(running_stack())

    async def client(self, tenant_id: str) -> GraphsvcClient:
        """A client of a new tenant."""
        async with open_stores(self.stack.settings, self.stack.endpoints) as stores:
            await stores.tenants.create_tenant(tenant_id)
            _, api_key = await stores.registry.create_key(tenant_id, "reader", frozenset(Role))
        client = GraphsvcClient(self.stack.target, api_key=api_key, timeout_s=120)
        return await self._stack.enter_async_context(client)

    def stop(self) -> None:
        # At the interpreter's end no coroutine can hand work to a thread any more, so this is done without the loop.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.stack.server_pid, signal.SIGTERM)
        self.stack.local.stop()


_loop: list[Loop] = []


def shared_loop() -> Loop:
    """The loop, started at the first use: a stack takes half a minute."""
    if not _loop:
        _loop.append(Loop())
    return _loop[0]


def build(corpus: Corpus) -> Callable[[Query, int], Sequence[str]]:
    """A ranker over the corpus, ingested."""
    loop = shared_loop()
    client = loop.run(loop.client(f"bench-{uuid.uuid4().hex[:12]}"))
    loop.run(ingest(client, corpus))
    counter = TiktokenCounter(Settings().cache_dir)
    prices = {unit.id: counter.count(unit.rendered(), "cl100k_base") for unit in corpus.units}
    rate = header_rate(corpus, counter)
    asked = itertools.count()

    async def ask(query: Query, budget: int) -> list[str]:
        session = client.session(f"ask-{next(asked)}", model=MODEL)
        answer = await session.retrieve(
            query.text, retrieval_budget=int(budget * rate), max_described_candidates=0, task_step=1
        )
        return [unit.unit_key for unit in answer.units]

    def ranker(query: Query, budget: int) -> Sequence[str]:
        return fitting(loop.run(ask(query, budget)), prices, budget)

    return ranker


def header_rate(corpus: Corpus, counter: TiktokenCounter) -> float:
    """Our tokens for one of the harness: the same text under our header, whose ids are longer than the data's."""
    header = counter.count("[retrieved id=aaaabbbbcccc]\n", "cl100k_base")
    ours = sum(header + counter.count(unit.text + "\n", "cl100k_base") for unit in corpus.units)
    theirs = sum(counter.count(unit.rendered(), "cl100k_base") for unit in corpus.units)
    return ours / theirs


def fitting(ids: Sequence[str], prices: dict[str, int], budget: int) -> list[str]:
    """The delivered units in their order, as far as they fit when the harness counts them."""
    kept: list[str] = []
    for unit_id in ids:
        if prices[unit_id] <= budget:
            kept.append(unit_id)
            budget -= prices[unit_id]
    return kept


async def ingest(client: GraphsvcClient, corpus: Corpus) -> None:
    """Puts every unit into its session, then the links, which lead across sessions."""
    sessions: dict[str, list[tuple[int, Unit]]] = {}
    for unit in corpus.units:
        turns = sessions.setdefault(unit.session, [])
        turns.append((len(turns) + 1, unit))
    names = {session: f"s{number}" for number, session in enumerate(sessions)}
    # Every question is asked in a session of its own, which sees the corpus by this policy.
    await client.create_policy(grantee_agent_id="reader", kinds=list(ContextUnitKind))
    ids: dict[str, str] = {}

    async def put(session: str, turns: list[tuple[int, Unit]]) -> None:
        results = await client.put(names[session], [unit_input(unit, step) for step, unit in turns])
        ids.update({unit.id: result.unit_id for (_, unit), result in zip(turns, results, strict=True)})

    await at_once(
        lambda session=session, batch=batch: put(session, batch)
        for session, turns in sessions.items()
        for batch in batches(turns)
    )

    async def link(session: str, edges: list[EdgeInput]) -> None:
        await client.link(names[session], edges)

    await at_once(
        lambda session=session, batch=batch: link(session, batch)
        for session, turns in sessions.items()
        for batch in batches(edges_of(turns, ids))
    )


def unit_input(unit: Unit, step: int) -> UnitInput:
    """A unit as the service takes it; what is no plain text goes into a code fence."""
    code = unit.kind == "code"
    return UnitInput(
        kind="state_snapshot" if code else "observation",
        content=fence(unit.text) if code else unit.text,
        unit_key=unit.id,
        task_step=step,
        path=unit.session if code else "",
        timestamp=datetime.fromisoformat(unit.timestamp).replace(tzinfo=UTC) if unit.timestamp else None,
    )


def edges_of(turns: list[tuple[int, Unit]], ids: dict[str, str]) -> list[EdgeInput]:
    """The typed edges of a session's units."""
    return [
        EdgeInput(
            ids[unit.id],
            RelationInput("provenance" if name == "contains" else "dependency", target_id=ids[target], role=name),
        )
        for _, unit in turns
        for target, name in dict.fromkeys(unit.links)
        if name != ORDER_LINK and target != unit.id
    ]


def batches(items: Sequence[T]) -> list[list[T]]:
    """The items in lists that one call takes."""
    return [list(items[at : at + WRITE_BATCH]) for at in range(0, len(items), WRITE_BATCH)]


async def at_once(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Runs the pieces, a few at a time."""
    slots = asyncio.Semaphore(CONCURRENT_WRITES)

    async def one(piece: Callable[[], Awaitable[None]]) -> None:
        async with slots:
            await piece()

    await asyncio.gather(*(one(piece) for piece in work))
