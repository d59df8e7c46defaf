"""``python -m tests.bench``: figures as ratios within one run. Absolute times depend on the machine and its load."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import neo4j

from graphsvc.app import GraphStores, SystemClock, load_adapters, open_stores, retrieval_settings
from graphsvc.client import GraphsvcClient, UnitInput
from graphsvc.domain.tenancy import Principal, Role
from graphsvc.graph.catalog import Statement
from graphsvc.graph.context_graph import Neo4jContextGraph
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.feedback_store import GraphFeedbackStore
from graphsvc.ports import ContentKey, ReadOptions
from graphsvc.ranking.embedding import make_embedder
from graphsvc.ranking.tokens import TiktokenCounter
from graphsvc.services.drafts import BudgetDraft, RetrievalQuery
from graphsvc.services.retrievals import RetrievalUseCases
from tests.bench.world import SESSION, WORDS, Stack, drained, fill, make_units, rss_mb, running_stack, task_count

QUERIES = 60
WARM_QUERIES = 8


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@dataclass
class Report:
    """Rows of figures, printed as they come and written to a file."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, **figures: Any) -> None:
        self.rows.append({"name": name, **figures})
        shown = "  ".join(f"{k}={v:.2f}" if isinstance(v, float) else f"{k}={v}" for k, v in figures.items())
        print(f"{name:<34} {shown}", flush=True)


class RecordingDriver:
    """Passes statements on and remembers them with their parameters."""

    def __init__(self, driver: GraphDriver) -> None:
        self._driver = driver
        self.calls: list[tuple[Statement, dict[str, Any], bool]] = []

    async def read(self, statement: Statement, params: dict[str, Any], **options: Any) -> Any:
        self.calls.append((statement, params, False))
        return await self._driver.read(statement, params, **options)

    async def write(self, statement: Statement, params: dict[str, Any], **options: Any) -> Any:
        self.calls.append((statement, params, True))
        return await self._driver.write(statement, params, **options)


class NoTiers:
    """Contents that are not there: the recorded retrievals are for their statements only."""

    async def get(self, keys: Sequence[ContentKey]) -> dict[ContentKey, bytes]:
        return dict.fromkeys(keys, b"x")


def queries(count: int, units: int) -> list[RetrievalQuery]:
    """Queries over a graph of so many units, the same at every call: every other one names a task that is there."""
    rng = random.Random(units)
    return [
        RetrievalQuery(
            text=" ".join(rng.sample(WORDS, 5)),
            budget=BudgetDraft(retrieval_budget=2000),
            task_id=f"task-{rng.randrange(task_count(units))}" if number % 2 else "",
        )
        for number in range(count)
    ]


async def record_statements(
    stack: Stack, stores: GraphStores, asked: Sequence[RetrievalQuery]
) -> list[list[tuple[Any, ...]]]:
    """For each query, the statements its retrieval runs, with their parameters."""
    recorder = RecordingDriver(stores.driver)
    embedder = make_embedder(stack.settings)
    clock = SystemClock()
    cases = RetrievalUseCases(
        graph=Neo4jContextGraph(recorder, stores.catalog, clock),  # pyright: ignore[reportArgumentType]
        feedback=GraphFeedbackStore(recorder, stores.catalog, clock),  # pyright: ignore[reportArgumentType]
        tiers=NoTiers(),  # pyright: ignore[reportArgumentType]
        embedder=embedder,
        counter=TiktokenCounter(stack.settings.cache_dir),
        adapter=load_adapters()["plain_text"],
        clock=clock,
        settings=retrieval_settings(stack.settings),
    )
    principal = Principal("bench", "agent", SESSION, frozenset(Role))
    recorded: list[list[tuple[Any, ...]]] = []
    for query in asked:
        recorder.calls.clear()
        await cases.retrieve(principal, query, ReadOptions(timeout_ms=10_000))
        recorded.append(list(recorder.calls))
    return recorded


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


async def bench_retrieve(stack: Stack, client: GraphsvcClient, units: int, report: Report) -> None:
    """gRPC retrieve beside its own statements through the plain driver, interleaved."""
    asked = queries(WARM_QUERIES + QUERIES, units)
    key_id = stack.api_key.split("_")[1]
    async with (
        open_stores(stack.settings, stack.endpoints) as stores,
        neo4j.AsyncGraphDatabase.driver(
            stack.endpoints.neo4j_uri,
            auth=(stack.endpoints.neo4j_user, stack.endpoints.neo4j_password or ""),
            fetch_size=-1,
            notifications_min_severity="OFF",
        ) as plain,
    ):
        recorded = await record_statements(stack, stores, asked)
        find_key = stores.catalog["find_key"]

        async def own_statements(number: int) -> None:
            async with plain.session(database="neo4j") as session:
                await (await session.run(find_key.text, key_id=key_id, now=datetime.now(UTC))).consume()
            for statement, params, is_write in recorded[number]:
                async with plain.session(database="neo4j") as session:
                    if is_write:
                        await session.execute_write(
                            lambda tx, text=statement.text, given=params: _consume(tx, text, fresh(given))
                        )
                    else:
                        await (await session.run(statement.text, params)).consume()

        async def candidate_statement(number: int) -> None:
            for statement, params, _ in recorded[number]:
                if statement.name == "expand_from_anchors":
                    async with plain.session(database="neo4j") as session:
                        await (await session.run(statement.text, params)).consume()

        async def over_grpc(number: int) -> None:
            query = asked[number]
            await client.retrieve(SESSION, query.text, retrieval_budget=2000, task_id=query.task_id)

        grpc_ms: list[float] = []
        own_ms: list[float] = []
        candidate_ms: list[float] = []
        for number in range(len(asked)):
            results = (
                await timed(lambda number=number: over_grpc(number)),
                await timed(lambda number=number: own_statements(number)),
                await timed(lambda number=number: candidate_statement(number)),
            )
            if number >= WARM_QUERIES:
                for into, value in zip((grpc_ms, own_ms, candidate_ms), results, strict=True):
                    into.append(value)
    report.add(
        f"retrieve at {units} units",
        grpc_p50_ms=statistics.median(grpc_ms),
        grpc_p95_ms=percentile(grpc_ms, 0.95),
        own_statements_p50_ms=statistics.median(own_ms),
        own_statements_p95_ms=percentile(own_ms, 0.95),
        candidate_p50_ms=statistics.median(candidate_ms),
        candidate_p95_ms=percentile(candidate_ms, 0.95),
        ratio_p50=statistics.median(grpc_ms) / statistics.median(own_ms),
    )


def fresh(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with a retrieval_id of their own, so that the replayed write is a write."""
    return {
        name: uuid.uuid4().hex if name == "retrieval_id" else fresh(value) if isinstance(value, dict) else value
        for name, value in params.items()
    }


async def _consume(tx: neo4j.AsyncManagedTransaction, text: str, params: dict[str, Any]) -> None:
    await (await tx.run(text, params)).consume()  # pyright: ignore[reportArgumentType]


RAW_PUT = """
UNWIND $rows AS row
CREATE (u:ContextUnit) SET u = row.properties
CREATE (u)-[:HAS_EMBEDDING]->(e:UnitEmbedding)
SET e = row.vector, e.embedding = toFloatList(row.embedding)
"""


async def bench_put(stack: Stack, client: GraphsvcClient, report: Report) -> None:
    """Batched and single puts over gRPC beside raw UNWIND with the same properties on the same schema."""
    batches = 6
    async with neo4j.AsyncGraphDatabase.driver(
        stack.endpoints.neo4j_uri, auth=(stack.endpoints.neo4j_user, stack.endpoints.neo4j_password or "")
    ) as plain:
        records, _, _ = await plain.execute_query(
            "MATCH (u:ContextUnit {tenant_id: 'bench'})-[:HAS_EMBEDDING]->(e) "
            "RETURN properties(u) AS properties, properties(e) AS vector LIMIT 1000"
        )
        samples = [(record["properties"], record["vector"]) for record in records]
        raw_s: list[float] = []
        put_s: list[float] = []
        for batch in range(batches):
            rows = []
            for number in range(1000):
                properties, vector = samples[number % len(samples)]
                unit_id = f"raw-{batch}-{number}"
                rows.append(
                    {
                        "properties": {**properties, "tenant_id": "bench-raw", "unit_id": unit_id},
                        "vector": {
                            **{k: v for k, v in vector.items() if k != "embedding"},
                            "tenant_id": "bench-raw",
                            "unit_id": unit_id,
                        },
                        "embedding": list(vector["embedding"]),
                    }
                )
            raw_s.append((await timed(lambda rows=rows: plain.execute_query(RAW_PUT, rows=rows))) / 1000)
            units = [
                UnitInput(unit.kind, unit.content + f" batch {batch}", unit_key=f"put-{batch}-{number}")
                for number, unit in enumerate(make_units(1000, seed=100 + batch))
            ]
            put_s.append((await timed(lambda units=units: client.put("bench-put", units))) / 1000)
        single_ms = [
            await timed(
                lambda number=number: client.put("bench-put", [UnitInput("observation", f"single unit {number}")])
            )
            for number in range(100)
        ]
    raw, put = statistics.median(raw_s[1:]), statistics.median(put_s[1:])
    report.add(
        "put, batches of 1000",
        units_per_s=1000 / put,
        raw_unwind_units_per_s=1000 / raw,
        ratio=raw / put,
    )
    report.add("put, single", units_per_s=1000 / statistics.median(single_ms), p50_ms=statistics.median(single_ms))


async def run(sizes: Sequence[int], out: Path | None) -> Report:
    report = Report()
    started = time.perf_counter()
    async with (
        running_stack() as stack,
        GraphsvcClient(stack.target, api_key=stack.api_key, timeout_s=120) as client,
    ):
        report.add("start-up", seconds=time.perf_counter() - started)
        done = 0
        for size in sizes:
            filled = time.perf_counter()
            await fill(client, done, size - done, max(sizes))
            report.add(f"fill to {size} units", units_per_s=(size - done) / (time.perf_counter() - filled))
            done = size
            if size == sizes[0]:
                await bench_put(stack, client, report)
            filled = time.perf_counter()
            await drained(stack.settings)
            report.add(f"outbox empty at {size} units", seconds=time.perf_counter() - filled)
            await bench_retrieve(stack, client, size, report)
            memory = {name: rss_mb(pid) for name, pid in stack.local.pids.items()}
            report.add(f"resident MiB at {size} units", service=rss_mb(stack.server_pid), **memory)
    p95 = [row["grpc_p95_ms"] for row in report.rows if row["name"].startswith("retrieve")]
    if len(p95) > 1:
        report.add("p95 growth, largest / smallest", ratio=p95[-1] / p95[0])
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report.rows, indent=1) + "\n")
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--sizes", default="10000,100000", help="units in the graph, ascending (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="figures as JSON")
    arguments = parser.parse_args()
    asyncio.run(run([int(size) for size in arguments.sizes.split(",")], arguments.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
