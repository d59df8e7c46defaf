"""Every file in cypher/ on the real server: as its header says, and planned as cypher_perf.md demands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import neo4j
import pytest

from graphsvc.domain.units import EdgeType
from graphsvc.graph.catalog import Mode, Statement, load_catalog
from tests.conftest import Neo4jEndpoints
from tests.support.graph_connection import connected_graph
from tests.support.graph_oracle import OracleGraph, OracleUnit

CATALOG = load_catalog()
HUB_EDGES = 2000

LATER_NAMES = frozenset({"REJECTS", "lifted_time", "expires_time"})
"""Read already, written by parts that come later."""
OPTIONAL_NAMES = frozenset({"tool_call_id", "tool_name", "tool_arguments_json", "vendor_state"})
"""Properties of some units only, written from a map that holds them then."""


@pytest.fixture(scope="module")
async def hub_driver(
    neo4j_endpoints: Neo4jEndpoints, graph_driver: neo4j.AsyncDriver
) -> AsyncIterator[neo4j.AsyncDriver]:
    """A database with the schema and, in some tenant, a hub."""
    async with connected_graph(neo4j_endpoints):
        graph = OracleGraph("cypher-files")
        graph.add(OracleUnit("hub", text="hub"))
        present, _, _ = await graph_driver.execute_query(
            "MATCH (u:ContextUnit {tenant_id: 'cypher-files', unit_id: 'hub'}) RETURN count(u) AS n"
        )
        if not present[0]["n"]:
            for n in range(HUB_EDGES):
                graph.add(OracleUnit(f"u{n}", text="spoke"))
                graph.link(f"u{n}", "hub", list(EdgeType)[n % 4])
            graph.share("ann", "s1")
            graph.tasks["T"] = ["u1"]
            graph.rejects["f"] = {"u2"}
            await graph.write(graph_driver)
        yield graph_driver


async def example_arguments(driver: neo4j.AsyncDriver, statement: Statement) -> dict[str, Any]:
    """The values of the file's ``:param`` lines, as Browser would take them."""
    values: dict[str, Any] = {}
    for param in statement.params:
        rows, _, _ = await driver.execute_query(f"CYPHER 25 RETURN {param.example} AS value")
        values[param.name] = rows[0]["value"]
    return values


def operators(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and details of every operator."""
    yield plan["operatorType"].split("@")[0], str(plan["args"].get("Details", ""))
    for child in plan.get("children", []):
        yield from operators(child)


def products(plan: dict[str, Any]) -> Iterator[str]:
    """Cartesian products of more than one row with one: two seeks in unique indexes give a row each."""
    children = plan.get("children", [])
    if plan["operatorType"].startswith("CartesianProduct") and not all(
        child["operatorType"].startswith("NodeUniqueIndexSeek") for child in children
    ):
        yield str(children)
    for child in children:
        yield from products(child)


async def explain(
    driver: neo4j.AsyncDriver, statement: Statement
) -> tuple[list[tuple[str, str]], list[neo4j.GqlStatusObject]]:
    arguments = await example_arguments(driver, statement)
    async with driver.session(database="neo4j") as session:
        result = await session.run("EXPLAIN " + statement.text, arguments)
        summary = await result.consume()
    assert summary.plan is not None
    assert not list(products(summary.plan))
    return list(operators(summary.plan)), list(summary.gql_status_objects)


every_statement = pytest.mark.parametrize("statement", list(CATALOG.values()), ids=lambda s: s.name)


@every_statement
async def test_examples_run_and_columns_are_as_the_header_says(
    statement: Statement, hub_driver: neo4j.AsyncDriver
) -> None:
    arguments = await example_arguments(hub_driver, statement)
    access = neo4j.READ_ACCESS if statement.mode is Mode.READ else neo4j.WRITE_ACCESS
    async with hub_driver.session(database="neo4j", default_access_mode=access) as session:
        # READ statements run where writing is refused; what others write is rolled back.
        transaction = await session.begin_transaction()
        result = await transaction.run(statement.text, arguments)
        assert list(result.keys()) == [column.name for column in statement.returns]
        await result.consume()
        await transaction.rollback()


@pytest.mark.parametrize("statement", [s for s in CATALOG.values() if s.mode is not Mode.SCHEMA], ids=lambda s: s.name)
async def test_plan_has_no_scan_of_everything(statement: Statement, hub_driver: neo4j.AsyncDriver) -> None:
    plan, statuses = await explain(hub_driver, statement)
    names = {name for name, _ in plan}
    assert not names & {"AllNodesScan", "NodeByLabelScan", "DirectedAllRelationshipsScan"}
    writing = [s for s in CATALOG.values() if s.mode is not Mode.READ]
    texts = [s.text for s in writing]
    texts += [text for s in writing for param in s.params for text in (param.meaning, param.example)]
    written = set(re.findall(r"\w+", " ".join(texts)))
    for status in statuses:
        found = re.search(r"The (?:label|relationship type|property) `(\w+)` does not exist", status.status_description)
        if found is not None:
            # The database may not hold every name yet; then some statement must be about to write it.
            assert found[1] in written | LATER_NAMES | OPTIONAL_NAMES, status.status_description
        else:
            assert status.raw_severity != "WARNING", status.status_description


async def test_expand_is_planned_in_layers(hub_driver: neo4j.AsyncDriver) -> None:
    plan, _ = await explain(hub_driver, CATALOG["expand_from_anchors"])
    names = [name for name, _ in plan]
    assert "NodeUniqueIndexSeek" in names
    assert "Expand(All)" in names
    assert names.count("EagerAggregation") >= 4
    assert sum("getDegree" in details for _, details in plan) >= 3
    assert not {"VarLengthExpand(All)", "VarLengthExpand(Into)", "Sort"} & set(names)


async def test_search_filters_inside_the_indexes(hub_driver: neo4j.AsyncDriver) -> None:
    plan, _ = await explain(hub_driver, CATALOG["search_topic"])
    vector = [details for name, details in plan if name == "NodeVectorIndexSearch"]
    assert len(vector) == 4
    assert all("tenant_id" in details and "kind" in details and "current" in details for details in vector)
    assert sum("agent_ids" in details for details in vector) == 2
    assert sum(name == "ProcedureCall" for name, _ in plan) == 2


async def test_list_recent_reads_the_index_in_order(hub_driver: neo4j.AsyncDriver) -> None:
    plan, _ = await explain(hub_driver, CATALOG["list_recent"])
    seeks = [details for name, details in plan if name == "NodeIndexSeek"]
    assert any("(tenant_id, agent_id, session_id, created_time)" in details for details in seeks)
    assert {"NodeIndexSeek", "PartialTop"} <= {name for name, _ in plan}
    assert not {"Top", "Sort"} & {name for name, _ in plan}


async def test_list_neighbours_seeks_turns_by_kind(hub_driver: neo4j.AsyncDriver) -> None:
    plan, _ = await explain(hub_driver, CATALOG["list_neighbours"])
    seeks = [details for name, details in plan if name == "NodeIndexSeek"]
    assert any("(tenant_id, agent_id, session_id, kind, task_step)" in details for details in seeks)
    assert "NodeUniqueIndexSeek" in {name for name, _ in plan}
    assert not {"VarLengthExpand(All)", "Expand(Into)", "Sort", "Top"} & {name for name, _ in plan}


async def test_describe_candidates_seeks_tool_calls(hub_driver: neo4j.AsyncDriver) -> None:
    plan, _ = await explain(hub_driver, CATALOG["describe_candidates"])
    seeks = [details for name, details in plan if name == "NodeIndexSeek"]
    assert any("(tenant_id, agent_id, session_id, tool_call_id)" in details for details in seeks)
    assert "NodeUniqueIndexSeek" in {name for name, _ in plan}
    assert "Expand(Into)" not in {name for name, _ in plan}


async def test_list_neighbours_reads_of_a_hub_no_more_than_tells_it(hub_driver: neo4j.AsyncDriver) -> None:
    statement = CATALOG["list_neighbours"]
    arguments = await example_arguments(hub_driver, statement)
    arguments |= {"tenant_id": "cypher-files", "caller": {"agent_id": "ann", "session_id": "s1"}}
    arguments["neighbours"] |= {"seed_ids": ["hub", "u4"], "candidate_ids": ["hub", "u4"], "edge_limit": 20}
    async with hub_driver.session(database="neo4j") as session:
        result = await session.run("PROFILE " + statement.text, arguments)
        row = await result.single(strict=True)
        summary = await result.consume()
    # The hub links nothing; it is linked to the other seed, and its degree is counted up to the limit.
    assert [link[:2] for link in row["links"]] == [["u4", "hub"]]
    assert row["in_degrees"] == [["hub", 20]]
    assert row["turns"] == []
    assert summary.profile is not None
    expanded = {
        details.partition(")")[0]: rows for name, details, rows in profiled(summary.profile) if name == "Expand(All)"
    }
    assert expanded["(seed"] == 20 + 1 + 1
    assert expanded["(linked"] == 20
    # Of a session whose units all stand in one step, the limit and one more of each seed.
    assert sum(rows for _, details, rows in profiled(summary.profile) if "task_step" in details) < HUB_EDGES / 10


def profiled(plan: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Name, details and rows of every operator."""
    yield plan["operatorType"].split("@")[0], str(plan["args"].get("Details", "")), plan["args"]["Rows"]
    for child in plan.get("children", []):
        yield from profiled(child)
