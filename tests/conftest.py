"""Fixtures shared by every test: a real Neo4j, an S3 endpoint, and names no other test uses.

Neo4j comes from GRAPHSVC_TEST_NEO4J_URI (with _USER and _PASSWORD) when it is set, else from
``tests.support.neo4j_server``, which starts one for the session. S3 likewise, from GRAPHSVC_TEST_S3_ENDPOINT (with
_ACCESS_KEY and _SECRET_KEY). Both are started on first use only, so that unit tests need neither.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import neo4j
import pytest

from graphsvc.local.endpoints import StackEndpoints

if TYPE_CHECKING:
    from tests.support.service import Service


@dataclass(frozen=True, slots=True)
class Neo4jEndpoints:
    """Where the test Neo4j answers; an empty password means no authentication."""

    neo4j_uri: str
    neo4j_user: str
    neo4j_password: str

    @property
    def auth(self) -> tuple[str, str] | None:
        """What the driver takes as ``auth``."""
        return (self.neo4j_user, self.neo4j_password) if self.neo4j_password else None


@dataclass(frozen=True, slots=True)
class S3Endpoints:
    """Where the test S3 answers."""

    s3_endpoint: str
    s3_access_key: str
    s3_secret_key: str


class _LazyStack:
    """The session's own stack, started when first asked for."""

    def __init__(self, exits: ExitStack) -> None:
        self._exits = exits
        self._endpoints: StackEndpoints | None = None

    def endpoints(self) -> StackEndpoints:
        if self._endpoints is None:
            from tests.support.neo4j_server import running_stack

            self._endpoints = self._exits.enter_context(running_stack())
        return self._endpoints


@pytest.fixture(scope="session")
def lazy_stack() -> Iterator[_LazyStack]:
    with ExitStack() as exits:
        yield _LazyStack(exits)


@pytest.fixture(scope="session")
def neo4j_endpoints(lazy_stack: _LazyStack) -> Neo4jEndpoints:
    """A real Neo4j 2026.x; shared, so a test works in a tenant of its own and never wipes."""
    if uri := os.environ.get("GRAPHSVC_TEST_NEO4J_URI"):
        return Neo4jEndpoints(
            neo4j_uri=uri,
            neo4j_user=os.environ.get("GRAPHSVC_TEST_NEO4J_USER", "neo4j"),
            neo4j_password=os.environ.get("GRAPHSVC_TEST_NEO4J_PASSWORD", ""),
        )
    stack = lazy_stack.endpoints()
    return Neo4jEndpoints(stack.neo4j_uri, stack.neo4j_user, stack.neo4j_password)


@pytest.fixture(scope="session")
def s3_endpoints(lazy_stack: _LazyStack) -> S3Endpoints:
    """A real S3 endpoint; shared, so a test works under a bucket or prefix of its own."""
    if endpoint := os.environ.get("GRAPHSVC_TEST_S3_ENDPOINT"):
        return S3Endpoints(
            s3_endpoint=endpoint,
            s3_access_key=os.environ.get("GRAPHSVC_TEST_S3_ACCESS_KEY", ""),
            s3_secret_key=os.environ.get("GRAPHSVC_TEST_S3_SECRET_KEY", ""),
        )
    stack = lazy_stack.endpoints()
    return S3Endpoints(stack.s3_endpoint, stack.s3_access_key, stack.s3_secret_key)


@pytest.fixture(scope="session")
async def graph_driver(neo4j_endpoints: Neo4jEndpoints) -> AsyncIterator[neo4j.AsyncDriver]:
    """A driver on the test Neo4j for the whole session."""
    async with neo4j.AsyncGraphDatabase.driver(neo4j_endpoints.neo4j_uri, auth=neo4j_endpoints.auth) as driver:
        await driver.verify_connectivity()
        yield driver


@pytest.fixture(scope="session")
def store_endpoints(neo4j_endpoints: Neo4jEndpoints, s3_endpoints: S3Endpoints) -> StackEndpoints:
    """Where the stores are, as the composition root takes them."""
    return StackEndpoints(
        neo4j_uri=neo4j_endpoints.neo4j_uri,
        neo4j_user=neo4j_endpoints.neo4j_user,
        neo4j_password=neo4j_endpoints.neo4j_password or None,
        http_url=None,
        s3_endpoint=s3_endpoints.s3_endpoint,
        s3_access_key=s3_endpoints.s3_access_key,
        s3_secret_key=s3_endpoints.s3_secret_key,
    )


@pytest.fixture(scope="session")
async def service(store_endpoints: StackEndpoints, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """The real service in this process; shared, so a test works in a tenant of its own (``await service.tenant()``)."""
    from tests.support.service import running_service, service_settings

    async with running_service(service_settings(tmp_path_factory.mktemp("service")), store_endpoints) as running:
        yield running


@pytest.fixture
def tenant_id() -> str:
    """A tenant id that nothing else uses; the tenant does not exist in the graph yet."""
    return f"t-{uuid.uuid4().hex[:16]}"


@pytest.fixture
async def fresh_tenant(graph_driver: neo4j.AsyncDriver, tenant_id: str) -> str:
    """The id of an empty tenant that exists in the graph."""
    await graph_driver.execute_query(
        "MERGE (t:Tenant {tenant_id: $tenant_id}) ON CREATE SET t.created_time = datetime()", tenant_id=tenant_id
    )
    return tenant_id
