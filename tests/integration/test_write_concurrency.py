"""Many writers at once on a real Neo4j, through two drivers as if they were two processes.

Source: known_failures.md, Lost or doubled writes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import neo4j
import pytest

from graphsvc.domain.errors import AlreadyExists, ErrorReason, FailedPrecondition, GraphsvcError, NotFound
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.graph.driver import GraphDriver
from graphsvc.ports import Edge, UnitFilter, WriteStatus
from tests.conftest import Neo4jEndpoints
from tests.support.store_case import READ, StoreCase, apply_schema, id_of, neo4j_case, supersedes, to

KINDS = frozenset(ContextUnitKind)


@pytest.fixture(scope="module")
async def drivers(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[list[GraphDriver]]:
    """Two connections, as two processes have them."""
    endpoints = neo4j_endpoints
    async with AsyncExitStack() as exits:
        made = [
            await exits.enter_async_context(
                GraphDriver(endpoints.neo4j_uri, endpoints.neo4j_user, endpoints.neo4j_password or None, "neo4j", 60)
            )
            for _ in range(2)
        ]
        await apply_schema(made[0])
        yield made


@pytest.fixture
async def sides(drivers: list[GraphDriver]) -> list[StoreCase]:
    """The stores of the two processes, on one fresh tenant."""
    one, two = [await neo4j_case(driver) for driver in drivers]
    two.tenant_id, two.clock, two.numbers = one.tenant_id, one.clock, one.numbers
    await one.tenants.create_tenant(one.tenant_id)
    return [one, two]


async def query(driver: neo4j.AsyncDriver, text: str, tenant_id: str) -> list[dict[str, Any]]:
    records, _, _ = await driver.execute_query(text, tenant_id=tenant_id)  # type: ignore[arg-type]
    return [record.data() for record in records]


async def wrong_currents(driver: neo4j.AsyncDriver, tenant_id: str) -> list[str]:
    """Units whose `current`, here, in the embedding or in scope_terms, is not what their edges say."""
    text = """
        MATCH (u:ContextUnit {tenant_id: $tenant_id})-[:HAS_EMBEDDING]->(e:UnitEmbedding)
        WITH u, e, NOT EXISTS {
          (u)<-[:SUPERSESSION]-(s:ContextUnit {agent_id: u.agent_id, session_id: u.session_id, kind: u.kind})
        } AS expected
        WHERE u.current <> expected OR e.current <> expected OR (u.scope_terms CONTAINS 'current0') <> expected
          OR (u.scope_terms CONTAINS 'past0') = expected
        RETURN u.unit_key AS unit_key
    """
    return [row["unit_key"] for row in await query(driver, text, tenant_id)]


async def test_writers_of_two_tenants_never_mix(sides: list[StoreCase], graph_driver: neo4j.AsyncDriver) -> None:
    other = await neo4j_case(sides[1].units._driver)  # type: ignore[attr-defined]
    await other.tenants.create_tenant(other.tenant_id)

    async def write(case: StoreCase, number: int) -> None:
        principal = case.principal(f"agent{number % 5}", f"s{number % 10}")
        keys = [f"w{number}-{n}" for n in range(3)]
        hub = id_of(principal, keys[0])
        units = [case.unit(principal, key, to(hub), task_id="T") for key in keys[1:]]
        await case.put(principal, *units, case.unit(principal, keys[0]))

    await asyncio.gather(*(write(case, n) for n in range(50) for case in (sides[0], other)))
    for case in (sides[0], other):
        text = """
            MATCH (u:ContextUnit {tenant_id: $tenant_id})
            OPTIONAL MATCH (u)-[d:DEPENDENCY]->(v:ContextUnit) WHERE v.tenant_id = u.tenant_id
            RETURN count(DISTINCT u) AS units, count(d) AS edges,
              COUNT { (:Session {tenant_id: $tenant_id}) } AS sessions,
              COUNT { (:Task {tenant_id: $tenant_id})-[:DEPENDENCY]->(:ContextUnit {tenant_id: $tenant_id}) } AS tasked
        """
        assert await query(graph_driver, text, case.tenant_id) == [
            {"units": 150, "edges": 100, "sessions": 10, "tasked": 100}
        ]


async def test_first_writes_of_one_session_make_one_session(
    sides: list[StoreCase], graph_driver: neo4j.AsyncDriver
) -> None:
    ada = sides[0].principal()
    await asyncio.gather(*(sides[n % 2].put(ada, sides[0].unit(ada, f"first{n}", task_id="T")) for n in range(20)))
    for label, count in (("Session", 1), ("Agent", 1), ("Task", 1), ("ContextUnit", 20), ("UnitEmbedding", 20)):
        rows = await query(
            graph_driver, f"MATCH (n:{label} {{tenant_id: $tenant_id}}) RETURN count(n) AS c", ada.tenant_id
        )
        assert rows == [{"c": count}], label
    assert len((await sides[1].units.list_units(ada, UnitFilter(), None, 100, READ)).result) == 20


async def test_one_request_at_once_from_two_processes_is_carried_out_once(
    sides: list[StoreCase], graph_driver: neo4j.AsyncDriver
) -> None:
    ada = sides[0].principal()
    new, request = sides[0].unit(ada, "once", task_id="T"), sides[0].request("same")
    written = await asyncio.gather(*(sides[n % 2].units.put_units(ada, [new], request) for n in range(20)))
    assert {w.result[0].status for w in written} == {WriteStatus.CREATED}
    assert sum(not w.replayed for w in written) == 1
    assert all(w.bookmarks for w in written)
    rows = await query(
        graph_driver, "MATCH (n:ContextUnit {tenant_id: $tenant_id}) RETURN count(n) AS c", ada.tenant_id
    )
    assert rows == [{"c": 1}]


async def test_one_unit_at_once_under_two_requests_is_created_once(sides: list[StoreCase]) -> None:
    ada = sides[0].principal()
    units = [sides[0].unit(ada, f"u{n}", to(id_of(ada, f"u{(n + 1) % 5}"))) for n in range(5)]

    async def put(number: int) -> list[WriteStatus]:
        written = await sides[number % 2].units.put_units(
            ada, random.Random(number).sample(units, 5), sides[0].request()
        )
        return [result.status for result in written.result]

    statuses = await asyncio.gather(*(put(n) for n in range(20)))
    assert sum(s == [WriteStatus.CREATED] * 5 for s in statuses) == 1
    assert sum(s == [WriteStatus.EXISTING] * 5 for s in statuses) == 19
    stored = (await sides[0].units.list_units(ada, UnitFilter(), None, 100, READ)).result
    assert [len(s.unit.relations) for s in stored] == [1] * 5


async def test_other_content_at_once_under_one_key_has_one_winner(sides: list[StoreCase]) -> None:
    ada = sides[0].principal()

    async def put(number: int) -> str:
        new = sides[0].unit(ada, "contested", content=f"version {number}")
        try:
            await sides[number % 2].put(ada, sides[0].unit(ada, f"beside{number}"), new)
        except GraphsvcError as error:
            return error.reason
        return "stored"

    outcomes = await asyncio.gather(*(put(n) for n in range(12)))
    assert sorted(outcomes) == sorted(["stored"] + [ErrorReason.UNIT_DIFFERS] * 11)
    assert len((await sides[0].units.list_units(ada, UnitFilter(), None, 100, READ)).result) == 2


async def test_creates_and_deletes_around_one_hub_lose_nothing(
    sides: list[StoreCase], graph_driver: neo4j.AsyncDriver
) -> None:
    owner = sides[0].principal("owner", "s")
    (hub,) = await sides[0].put(owner, sides[0].unit(owner, "hub"))
    await sides[0].share(owner, kinds=KINDS)

    async def work(number: int) -> set[str]:
        dice, case = random.Random(number), sides[number % 2]
        writer = case.principal(f"writer{number % 4}", f"s{number % 8}")
        alive: set[str] = set()
        for step in range(12):
            if alive and dice.random() < 0.4:
                doomed = dice.sample(sorted(alive), min(2, len(alive)))
                removed = await case.units.delete_units(writer, doomed, case.request(f"d{number}-{step}"))
                assert {unit_id for unit_id, _ in removed.result} == set(doomed)
                alive -= set(doomed)
            else:
                keys = [f"n{number}-{step}-{n}" for n in range(3)]
                units = [case.unit(writer, key, to(hub, dice.choice(list(EdgeType)[:2])), task_id="T") for key in keys]
                written = await case.units.put_units(writer, units, case.request(f"c{number}-{step}"))
                alive |= {result.unit_id for result in written.result}
        return alive

    alive = set().union(*await asyncio.gather(*(work(n) for n in range(16))))
    text = """
        MATCH (h:ContextUnit {tenant_id: $tenant_id, unit_key: 'hub'})<--(u:ContextUnit)
        RETURN collect(u.unit_id) AS ids, COUNT { (:Task {tenant_id: $tenant_id})-->() } AS tasked,
          COUNT { (:UnitEmbedding {tenant_id: $tenant_id}) } AS vectors
    """
    (row,) = await query(graph_driver, text, owner.tenant_id)
    assert sorted(row["ids"]) == sorted(alive)
    assert (row["tasked"], row["vectors"]) == (len(alive), len(alive) + 1)


async def test_a_hub_deleted_while_others_link_to_it(sides: list[StoreCase], graph_driver: neo4j.AsyncDriver) -> None:
    """Whoever comes too late is told UNIT_NOT_FOUND, as for any absent unit; nothing else comes back."""
    owner = sides[0].principal("owner", "s")
    await sides[0].share(owner, kinds=KINDS)
    for attempt in range(4):
        (hub,) = await sides[0].put(owner, sides[0].unit(owner, f"hub{attempt}"))
        gone = asyncio.Event()

        async def delete(hub: str = hub, gone: asyncio.Event = gone, attempt: int = attempt) -> None:
            await asyncio.sleep(0.05 + 0.03 * attempt)
            removed = await sides[0].units.delete_units(owner, [hub], sides[0].request())
            assert len(removed.result) == 1
            gone.set()

        async def link(number: int, hub: str = hub, gone: asyncio.Event = gone, attempt: int = attempt) -> int:
            case = sides[number % 2]
            writer = case.principal(f"w{number}", f"s{attempt}")
            stored = 0
            while True:
                was_gone = gone.is_set()
                try:
                    await case.put(writer, case.unit(writer, f"x{attempt}-{stored}", to(hub)))
                    stored += 1
                    assert not was_gone
                except NotFound:
                    return stored

        _, *stored = await asyncio.gather(delete(), *(link(n) for n in range(6)))
        text = "MATCH (u:ContextUnit {tenant_id: $tenant_id}) WHERE u.unit_key STARTS WITH 'x' RETURN count(u) AS c"
        (row,) = await query(graph_driver, text.replace("'x'", f"'x{attempt}-'"), owner.tenant_id)
        assert row["c"] == sum(stored)


async def test_edges_linked_at_once_are_there_once(sides: list[StoreCase], graph_driver: neo4j.AsyncDriver) -> None:
    ada = sides[0].principal()
    ids = await sides[0].put(ada, *(sides[0].unit(ada, f"u{n}") for n in range(6)))
    every = [Edge(a, to(b)) for a in ids for b in ids if a != b]

    async def link(number: int) -> int:
        edges = random.Random(number).sample(every, 12)
        written = await sides[number % 2].units.link(ada, edges, sides[0].request())
        return sum(status is WriteStatus.CREATED for status in written.result)

    created = sum(await asyncio.gather(*(link(n) for n in range(16))))
    text = """
        MATCH (a:ContextUnit {tenant_id: $tenant_id})-[d:DEPENDENCY]->(b)
        RETURN count(d) AS edges, count(DISTINCT [a.unit_id, b.unit_id]) AS pairs
    """
    (row,) = await query(graph_driver, text, ada.tenant_id)
    assert row["edges"] == row["pairs"] == created


@pytest.mark.parametrize("seed", range(3))
async def test_supersession_stays_acyclic_and_current_stays_right(
    sides: list[StoreCase], graph_driver: neo4j.AsyncDriver, seed: int
) -> None:
    """Puts, links, unlinks and deletes of supersessions, from four sessions that see each other's units."""
    people = [sides[0].principal(agent, session) for agent in ("ada", "bob") for session in ("s1", "s2")]
    await sides[0].share(people[0], owner_agent_id="", kinds=KINDS)
    kinds = list(ContextUnitKind)[:2]
    ids = [id_of(person, f"k{n}") for person in people for n in range(6)]
    for person in people:
        await sides[0].put(person, *(sides[0].unit(person, f"k{n}", kind=kinds[n % 2]) for n in range(0, 6, 2)))
    done = refused = 0

    async def act(number: int) -> None:
        nonlocal done, refused
        dice, case = random.Random(1000 * seed + number), sides[number % 2]
        for _ in range(8):
            person = dice.choice(people)
            action = dice.randrange(5)
            request = case.request(f"r{number}-{next(case.numbers)}")
            try:
                if action <= 1:
                    n = dice.randrange(6)
                    new = case.unit(person, f"k{n}", supersedes(dice.choice(ids)), kind=kinds[n % 2])
                    await case.units.put_units(person, [new], request)
                elif action == 2:
                    own = id_of(person, f"k{dice.randrange(6)}")
                    await case.units.link(person, [Edge(own, supersedes(dice.choice(ids)))], request)
                elif action == 3:
                    removals = [Edge(id_of(person, f"k{n}"), supersedes(dice.choice(ids))) for n in range(6)]
                    await case.units.unlink(person, removals, request)
                else:
                    await case.units.delete_units(person, [id_of(person, f"k{dice.randrange(6)}")], request)
                done += 1
            except (NotFound, AlreadyExists, FailedPrecondition):
                refused += 1

    await asyncio.gather(*(act(n) for n in range(12)))
    assert done > 20
    assert done + refused == 12 * 8
    assert await wrong_currents(graph_driver, people[0].tenant_id) == []
    disordered = await query(
        graph_driver,
        """
        MATCH (a:ContextUnit {tenant_id: $tenant_id})-[:SUPERSESSION]->(b)
        WHERE a.created_time < b.created_time OR a.created_time = b.created_time AND a.unit_id <= b.unit_id
        RETURN a.unit_key AS a, b.unit_key AS b
        """,
        people[0].tenant_id,
    )
    assert disordered == []
