"""The connection: limits end the server's work, cancellation too; races over the schema; revisions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import LiteralString, cast

import neo4j
import pytest

from graphsvc.domain.errors import DeadlineExceeded, ErrorReason, FailedPrecondition, InvalidArgument, Unavailable
from graphsvc.graph import schema
from graphsvc.graph.catalog import Mode, Statement
from graphsvc.graph.driver import GraphDriver
from tests.conftest import Neo4jEndpoints
from tests.support.graph_connection import DIMENSIONS, GraphConnection, connected_graph


@pytest.fixture(scope="module")
async def connection(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[GraphConnection]:
    async with connected_graph(neo4j_endpoints) as connected:
        yield connected


def statement(text: str, mode: Mode = Mode.READ, name: str = "") -> Statement:
    return Statement(
        name=name or f"test_{uuid.uuid4().hex}",
        folder="tests",
        text=cast(LiteralString, text),
        mode=mode,
        params=(),
        returns=(),
        header={},
    )


def endless(mode: Mode = Mode.READ) -> Statement:
    return statement("UNWIND range(1, 100000000000) AS n WITH n WHERE n < 0 RETURN count(n) AS n", mode)


async def running(driver: neo4j.AsyncDriver, name: str) -> int:
    rows, _, _ = await driver.execute_query(
        "SHOW TRANSACTIONS YIELD metaData WHERE metaData.statement = $name RETURN count(*) AS n", name=name
    )
    return rows[0]["n"]


async def until(driver: neo4j.AsyncDriver, name: str, count: int) -> None:
    for _ in range(200):
        if await running(driver, name) == count:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"{name} does not run {count} times")


@pytest.mark.parametrize("mode", [Mode.READ, Mode.WRITE])
async def test_cancellation_ends_the_transaction(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, mode: Mode
) -> None:
    slow = endless(mode)
    call = connection.driver.read if mode is Mode.READ else connection.driver.write
    task = asyncio.create_task(call(slow, {}, timeout_ms=60_000))
    await until(graph_driver, slow.name, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(graph_driver, slow.name, 0)


@pytest.mark.parametrize("mode", [Mode.READ, Mode.WRITE])
async def test_the_limit_ends_the_transaction(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver, mode: Mode
) -> None:
    slow = endless(mode)
    call = connection.driver.read if mode is Mode.READ else connection.driver.write
    with pytest.raises(DeadlineExceeded) as caught:
        await call(slow, {}, timeout_ms=200)
    assert caught.value.reason is ErrorReason.DEADLINE_PASSED
    await until(graph_driver, slow.name, 0)


async def test_nobody_there_is_unavailable() -> None:
    async with GraphDriver("bolt://127.0.0.1:1", "neo4j", "x", "neo4j", 2) as driver:
        for call in (driver.read, driver.write):
            with pytest.raises(Unavailable) as caught:
                await call(statement("RETURN 1"), {}, timeout_ms=300)
            assert caught.value.reason is ErrorReason.GRAPH_UNAVAILABLE
            assert caught.value.metadata["retry_delay_ms"] == "1000"
        with pytest.raises(Unavailable):
            await driver.ping(timeout_ms=300)


async def test_a_server_that_says_nothing_is_unavailable() -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with GraphDriver(f"bolt://127.0.0.1:{port}", "neo4j", "x", "neo4j", 2) as driver:
        with pytest.raises(Unavailable):
            await driver.read(statement("RETURN 1"), {}, timeout_ms=200)
    server.close()


async def test_wrong_credentials_are_unavailable(neo4j_endpoints: Neo4jEndpoints) -> None:
    if not neo4j_endpoints.neo4j_password:
        pytest.skip("this Neo4j asks for no password")
    async with GraphDriver(neo4j_endpoints.neo4j_uri, "neo4j", "wrong-" + uuid.uuid4().hex, "neo4j", 2) as driver:
        with pytest.raises(Unavailable, match="credentials"):
            await driver.read(statement("RETURN 1"), {}, timeout_ms=5000)


async def test_a_broken_connection_is_replaced(connection: GraphConnection, neo4j_endpoints: Neo4jEndpoints) -> None:
    """A proxy that drops idle connections: the next call succeeds, with nothing restarted."""
    host, port = neo4j_endpoints.neo4j_uri.rsplit("/", 1)[1].split(":")
    open_writers: list[asyncio.StreamWriter] = []

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except OSError:
            return
        finally:
            sink.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        open_writers.extend((writer, up_writer))
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))

    proxy = await asyncio.start_server(relay, "127.0.0.1", 0)
    proxy_port = proxy.sockets[0].getsockname()[1]
    async with GraphDriver(
        f"bolt://127.0.0.1:{proxy_port}", neo4j_endpoints.neo4j_user, neo4j_endpoints.neo4j_password or None, "neo4j", 4
    ) as driver:
        for call in (driver.read, driver.write):
            await call(statement("RETURN 1 AS n"), {}, timeout_ms=5000)
            for writer in open_writers:
                writer.close()
            open_writers.clear()
            rows, _ = await call(statement("RETURN 1 AS n"), {}, timeout_ms=5000)
            assert rows[0]["n"] == 1
    proxy.close()


async def test_deadlocks_are_retried(connection: GraphConnection, graph_driver: neo4j.AsyncDriver) -> None:
    """Writers that lock two nodes in opposite orders all succeed."""
    label = f"Lock{uuid.uuid4().hex[:8]}"
    await graph_driver.execute_query(
        cast(LiteralString, f"CREATE (:{label} {{n: 1, hits: 0}}), (:{label} {{n: 2, hits: 0}})")
    )
    orders = [
        statement(
            f"MATCH (a:{label} {{n: {first}}}) SET a.hits = a.hits + 1 WITH a "
            f"MATCH (b:{label} {{n: {3 - first}}}) SET b.hits = b.hits + 1 RETURN 1 AS n",
            Mode.WRITE,
        )
        for first in (1, 2)
    ]
    await asyncio.gather(*(connection.driver.write(orders[n % 2], {}, timeout_ms=30_000) for n in range(24)))
    rows, _, _ = await graph_driver.execute_query(
        cast(LiteralString, f"MATCH (a:{label}) RETURN collect(a.hits) AS hits")
    )
    assert rows[0]["hits"] == [24, 24]
    await graph_driver.execute_query(cast(LiteralString, f"MATCH (a:{label}) DELETE a"))


async def test_several_statements_are_one_transaction(
    connection: GraphConnection, graph_driver: neo4j.AsyncDriver
) -> None:
    label = f"One{uuid.uuid4().hex[:8]}"

    def refuse(position: int, _: list[neo4j.Record]) -> None:
        if position == 1:
            raise InvalidArgument(ErrorReason.FIELD_INVALID, "no")

    create = statement(f"CREATE (n:{label}) RETURN 1 AS n", Mode.WRITE)
    with pytest.raises(InvalidArgument):
        await connection.driver.write_many([(create, {}), (create, {})], timeout_ms=5000, check=refuse)
    rows, _, _ = await graph_driver.execute_query(cast(LiteralString, f"MATCH (n:{label}) RETURN count(n) AS n"))
    assert rows[0]["n"] == 0


async def test_revisions(connection: GraphConnection) -> None:
    label = f"Rev{uuid.uuid4().hex[:8]}"
    _, bookmarks = await connection.driver.write(
        statement(f"CREATE (n:{label}) RETURN 1 AS n", Mode.WRITE), {}, timeout_ms=5000
    )
    assert len(bookmarks) == 1
    count = statement(f"MATCH (n:{label}) RETURN count(n) AS n")
    rows, seen = await connection.driver.read(count, {}, bookmarks=bookmarks, timeout_ms=5000)
    assert rows[0]["n"] == 1
    assert seen
    with pytest.raises(InvalidArgument) as caught:
        await connection.driver.read(count, {}, bookmarks=("nonsense",), timeout_ms=5000)
    assert caught.value.reason is ErrorReason.REVISION_TOKEN_INVALID
    await connection.driver.write(statement(f"MATCH (n:{label}) DELETE n", Mode.WRITE), {}, timeout_ms=5000)


async def test_the_same_index_from_many_at_once(connection: GraphConnection, graph_driver: neo4j.AsyncDriver) -> None:
    name = f"race_{uuid.uuid4().hex[:8]}"
    statements = [
        statement(f"CREATE CONSTRAINT {name} IF NOT EXISTS FOR (n:{name}) REQUIRE n.x IS UNIQUE", Mode.SCHEMA),
        statement(f"CREATE RANGE INDEX {name}_y IF NOT EXISTS FOR (n:{name}) ON (n.y)", Mode.SCHEMA),
    ]
    await asyncio.gather(*(schema.create(connection.driver, statements, {}) for _ in range(8)))
    names = {index.name for index in await schema.show_indexes(connection.driver, connection.catalog)}
    assert {name, f"{name}_y"} <= names
    await graph_driver.execute_query(cast(LiteralString, f"DROP CONSTRAINT {name}"))
    await graph_driver.execute_query(cast(LiteralString, f"DROP INDEX {name}_y"))


async def test_schema_twice_and_dimensions(connection: GraphConnection) -> None:
    await asyncio.gather(*(schema.apply(connection.driver, connection.catalog, DIMENSIONS) for _ in range(2)))
    await schema.apply(connection.driver, connection.catalog, 0)
    with pytest.raises(FailedPrecondition, match="has 256 dimensions") as caught:
        await schema.apply(connection.driver, connection.catalog, 64)
    assert caught.value.reason is ErrorReason.SCHEMA_MISMATCH


async def test_an_old_server_is_refused(connection: GraphConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    async def old() -> str:
        return "Neo4j/5.26.12"

    monkeypatch.setattr(connection.driver, "ping", old)
    with pytest.raises(FailedPrecondition, match="2026"):
        await schema.check_version(connection.driver)
