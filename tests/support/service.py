"""The real service, in this process, over gRPC: what gates and end-to-end tests talk to."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from graphsvc.app import Serving, serving
from graphsvc.client import GraphsvcClient
from graphsvc.domain.tenancy import Role
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.settings import Settings


@dataclass(slots=True)
class Service:
    """A running service and the means to make tenants, keys and clients on it."""

    serving: Serving
    _clients: contextlib.AsyncExitStack = field(repr=False)

    @property
    def target(self) -> str:
        """Address for a client."""
        return self.serving.target

    async def tenant(self, tenant_id: str | None = None) -> str:
        """The id of an empty tenant that exists."""
        tenant_id = tenant_id or f"t-{uuid.uuid4().hex[:16]}"
        await self.serving.stores.tenants.create_tenant(tenant_id)
        return tenant_id

    async def api_key(self, tenant_id: str, agent_id: str, roles: frozenset[Role] = frozenset(Role)) -> str:
        """A new API key of the agent."""
        _, text = await self.serving.stores.registry.create_key(tenant_id, agent_id, roles)
        return text

    async def client(
        self, tenant_id: str, agent_id: str = "agent", roles: frozenset[Role] = frozenset(Role)
    ) -> GraphsvcClient:
        """A client with a key of its own, closed with the service."""
        client = GraphsvcClient(self.target, api_key=await self.api_key(tenant_id, agent_id, roles))
        return await self._clients.enter_async_context(client)


def service_settings(state_dir: Path, cache_dir: Path | None = None, **overrides: object) -> Settings:
    """Settings of a service for tests: a free port, its own state directory and bucket."""
    values: dict[str, object] = {
        "state_dir": state_dir,
        "grpc_port": 0,
        "lmdb_map_mb": 64,
        "recalibration_check_s": 0,  # one database, many tests: nobody recalibrates another's tenant
        "s3_bucket": f"test-{uuid.uuid4().hex[:12]}",
        "query_timeout_ms": 10_000,  # a loaded test machine; limits have tests of their own
        **({"cache_dir": cache_dir} if cache_dir else {}),
        **overrides,
    }
    return Settings(**values)  # pyright: ignore[reportArgumentType]


@contextlib.asynccontextmanager
async def running_service(settings: Settings, endpoints: StackEndpoints) -> AsyncIterator[Service]:
    """A service over these stores, until the block is left."""
    async with serving(settings, endpoints) as running, contextlib.AsyncExitStack() as clients:
        yield Service(running, clients)
