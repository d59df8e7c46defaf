"""Each store contract runs twice: against the oracle in memory and against Neo4j."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from graphsvc.graph.driver import GraphDriver
from tests.conftest import Neo4jEndpoints
from tests.support.store_case import StoreCase, apply_schema, memory_case, neo4j_case


@pytest.fixture(scope="session")
async def store_driver(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[GraphDriver]:
    """A connection to a Neo4j with the schema."""
    endpoints = neo4j_endpoints
    async with GraphDriver(
        endpoints.neo4j_uri, endpoints.neo4j_user, endpoints.neo4j_password or None, "neo4j", 16
    ) as driver:
        await apply_schema(driver)
        yield driver


@pytest.fixture(params=["memory", "neo4j"])
async def stores(request: pytest.FixtureRequest, store_driver: GraphDriver) -> StoreCase:
    """Stores with a tenant of their own."""
    made = await memory_case() if request.param == "memory" else await neo4j_case(store_driver)
    await made.tenants.create_tenant(made.tenant_id)
    return made
