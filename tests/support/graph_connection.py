"""The graph package on the test database, with its schema in place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from graphsvc.domain.tenancy import Principal, Role
from graphsvc.graph import schema
from graphsvc.graph.catalog import Catalog, load_catalog
from graphsvc.graph.context_graph import Neo4jContextGraph
from graphsvc.graph.driver import GraphDriver
from tests.support.graph_oracle import FixedClock

DIMENSIONS = 256


class Endpoints(Protocol):
    neo4j_uri: str
    neo4j_user: str
    neo4j_password: str


@dataclass(frozen=True)
class GraphConnection:
    driver: GraphDriver
    catalog: Catalog
    graph: Neo4jContextGraph


@asynccontextmanager
async def connected_graph(endpoints: Endpoints) -> AsyncIterator[GraphConnection]:
    catalog = load_catalog()
    async with GraphDriver(
        endpoints.neo4j_uri, endpoints.neo4j_user, endpoints.neo4j_password or None, "neo4j", 16
    ) as driver:
        await schema.apply(driver, catalog, DIMENSIONS)
        yield GraphConnection(driver, catalog, Neo4jContextGraph(driver, catalog, FixedClock()))


def principal(tenant_id: str, agent_id: str = "ann", session_id: str = "s1") -> Principal:
    return Principal(tenant_id=tenant_id, agent_id=agent_id, session_id=session_id, roles=frozenset(Role))
