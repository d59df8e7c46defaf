"""Tenants, API keys and policies in Neo4j, and the secret that all processes on one database share.

Source: gate N10; design.md, Invariants.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from neo4j import Record

from graphsvc.domain.errors import ErrorReason, GraphsvcError, NotFound, ResourceExhausted
from graphsvc.domain.tenancy import Policy, Principal, Role
from graphsvc.domain.units import ContextUnitKind
from graphsvc.graph.catalog import Catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.requests import known_tenant, request_row, write_parameters
from graphsvc.graph.rows import to_caller, to_datetime
from graphsvc.graph.scope_terms import policy_clause
from graphsvc.ports import ApiKey, Clock, Read, ReadOptions, WriteRequest, WriteStatus, Written

MAX_POLICIES_OF_GRANTEE = 64
"""Policies for the same grantee agent and session; each read collects those that hold for its caller."""
MAX_POLICIES_OF_TENANT = 1000
TIMEOUT_MS = 10_000
"""Limit of the statements that carry no deadline of a caller."""
SECRET_BYTES = 32
_TOKEN_SECRET = "token"  # noqa: S105 - the secret's name
_FIRST_TIME = datetime(1, 1, 1, tzinfo=UTC)


async def load_service_secret(driver: GraphDriver, catalog: Catalog) -> bytes:
    """The secret of 32 bytes that signs tokens, the same for every process on this database; made by the first.

    Raises:
        Unavailable: GRAPH_UNAVAILABLE.
    """
    proposal = base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    rows, _ = await driver.write(
        catalog["merge_service_secret"], {"name": _TOKEN_SECRET, "value": proposal}, timeout_ms=TIMEOUT_MS
    )
    return base64.b64decode(rows[0]["value"])


class GraphTenantStore:
    """TenantStore on Neo4j; each method is one statement in one transaction.

    Args:
        driver: an open connection.
        catalog: all statements.
        clock: says which keys have expired and when things were made.
    """

    def __init__(self, driver: GraphDriver, catalog: Catalog, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._create_tenant = catalog["create_tenant"]
        self._create_key = catalog["create_key"]
        self._find_key = catalog["find_key"]
        self._list_keys = catalog["list_keys"]
        self._revoke_key = catalog["revoke_key"]
        self._create_policy = catalog["create_policy"]
        self._list_policies = catalog["list_policies"]
        self._delete_policy = catalog["delete_policy"]

    async def create_tenant(self, tenant_id: str) -> WriteStatus:
        """Whether the tenant is new; writes to an unknown one are refused."""
        rows, _ = await self._driver.write(
            self._create_tenant, {"tenant_id": tenant_id, "now": self._clock.now()}, timeout_ms=TIMEOUT_MS
        )
        return WriteStatus.CREATED if rows[0]["created"] else WriteStatus.EXISTING

    async def create_key(self, key: ApiKey, secret_sha256: str) -> None:
        """Returns when the key's digest is stored and its agent is known.

        Raises:
            NotFound: TENANT_NOT_FOUND.
        """
        params = {
            "tenant_id": key.tenant_id,
            "agent_id": key.agent_id,
            "key_id": key.key_id,
            "roles": sorted(key.roles),
            "created_time": key.created_time,
            "expires_time": key.expires_time,
            "secret_sha256": secret_sha256,
        }
        rows, _ = await self._driver.write(self._create_key, params, timeout_ms=TIMEOUT_MS)
        known_tenant(rows, key.tenant_id)

    async def find_key(self, key_id: str) -> tuple[ApiKey, str] | None:
        """The key and its secret's sha256, or None when absent, revoked or expired."""
        rows, _ = await self._driver.read(
            self._find_key, {"key_id": key_id, "now": self._clock.now()}, timeout_ms=TIMEOUT_MS
        )
        if not rows:
            return None
        row = rows[0]
        return _api_key(key_id, row["tenant_id"], row), row["secret_sha256"]

    async def list_keys(self, tenant_id: str) -> tuple[ApiKey, ...]:
        """The tenant's keys by created_time, expired ones too, revoked ones not."""
        rows, _ = await self._driver.read(self._list_keys, {"tenant_id": tenant_id}, timeout_ms=TIMEOUT_MS)
        return tuple(_api_key(row["key_id"], tenant_id, row) for row in rows)

    async def revoke_key(self, tenant_id: str, key_id: str) -> bool:
        """Whether there was such a key; it has ended when this returns."""
        params = {"tenant_id": tenant_id, "key_id": key_id, "now": self._clock.now()}
        rows, _ = await self._driver.write(self._revoke_key, params, timeout_ms=TIMEOUT_MS)
        return rows[0]["revoked_count"] > 0

    async def create_policy(self, principal: Principal, policy: Policy, request: WriteRequest) -> Written[Policy]:
        """The policy as stored; on a replay the one stored the first time.

        Raises:
            NotFound: TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
            ResourceExhausted: LIMIT_EXCEEDED, 64 policies for one grantee or 1000 of the tenant.
        """

        def check(_: int, rows: list[Record]) -> None:
            row = request_row(rows, principal, request)
            if row["replayed_json"] is not None:
                return
            if row["tenant_count"] > MAX_POLICIES_OF_TENANT:
                raise _over_limit("the tenant", MAX_POLICIES_OF_TENANT)
            if row["grantee_count"] > MAX_POLICIES_OF_GRANTEE:
                raise _over_limit("the same grantee", MAX_POLICIES_OF_GRANTEE)

        params = write_parameters(
            principal,
            request,
            policy.created_time,
            policy=_policy_properties(policy),
            result_json=json.dumps(_policy_json(policy)),
        )
        rows, bookmarks = await self._driver.write_many(
            [(self._create_policy, params)], timeout_ms=request.timeout_ms, check=check
        )
        replayed_json = rows[0][0]["replayed_json"]
        if replayed_json is None:
            return Written(policy, bookmarks)
        return Written(_policy_from_json(json.loads(replayed_json)), bookmarks, replayed=True)

    async def list_policies(
        self, principal: Principal, after: tuple[datetime, str] | None, limit: int, options: ReadOptions
    ) -> Read[tuple[Policy, ...]]:
        """Policies the principal owns or is a grantee of (an admin: all of the tenant), by created_time, policy_id.

        A principal without a session is a grantee of what is granted to any session of its agent.
        """
        after_time, after_id = after or (_FIRST_TIME, "")
        params = {
            "tenant_id": principal.tenant_id,
            "caller": to_caller(principal),
            "every_policy": Role.ADMIN in principal.roles,
            "after_time": after_time,
            "after_id": after_id,
            "limit": limit,
        }
        rows, bookmarks = await self._driver.read(
            self._list_policies, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        return Read(tuple(_policy(properties) for properties in rows[0]["policies"]), bookmarks)

    async def delete_policy(self, principal: Principal, policy_id: str, request: WriteRequest) -> Written[bool]:
        """True when a policy of the principal's own (an admin: any of the tenant) has ended.

        Raises:
            NotFound: POLICY_NOT_FOUND, absent or somebody else's; TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """

        def check(_: int, rows: list[Record]) -> None:
            row = request_row(rows, principal, request)
            if row["replayed_json"] is None and not row["deleted_count"]:
                raise NotFound(
                    ErrorReason.POLICY_NOT_FOUND, "the policy is absent or not the caller's", policy_id=policy_id
                )

        params = write_parameters(
            principal,
            request,
            self._clock.now(),
            every_policy=Role.ADMIN in principal.roles,
            policy_id=policy_id,
        )
        rows, bookmarks = await self._driver.write_many(
            [(self._delete_policy, params)], timeout_ms=request.timeout_ms, check=check
        )
        return Written(True, bookmarks, rows[0][0]["replayed_json"] is not None)


def _over_limit(whose: str, limit: int) -> GraphsvcError:
    return ResourceExhausted(
        ErrorReason.LIMIT_EXCEEDED,
        f"there are {limit} policies for {whose} already, expired ones included: delete some",
        limit=limit,
    )


def _api_key(key_id: str, tenant_id: str, row: Record) -> ApiKey:
    expires_time = row["expires_time"]
    return ApiKey(
        key_id=key_id,
        tenant_id=tenant_id,
        agent_id=row["agent_id"],
        roles=frozenset(Role(role) for role in row["roles"]),
        created_time=to_datetime(row["created_time"]),
        expires_time=None if expires_time is None else to_datetime(expires_time),
    )


def _policy_properties(policy: Policy) -> dict[str, Any]:
    """The properties of a (:Policy) node, tenant_id and created_time aside."""
    return {
        "policy_id": policy.policy_id,
        "owner_agent_id": policy.owner_agent_id,
        "owner_session_id": policy.owner_session_id,
        "grantee_agent_id": policy.grantee_agent_id,
        "grantee_session_id": policy.grantee_session_id,
        "kinds": sorted(policy.kinds),
        "created_by": policy.created_by,
        "expires_time": policy.expires_time,
        "scope_clause": policy_clause(policy),
    }


def _policy_json(policy: Policy) -> dict[str, Any]:
    """The policy as JSON values: what a replay gives back."""
    return _policy_properties(policy) | {
        "tenant_id": policy.tenant_id,
        "created_time": policy.created_time.isoformat(),
        "expires_time": policy.expires_time.isoformat() if policy.expires_time else None,
    }


def _policy_from_json(values: Mapping[str, Any]) -> Policy:
    expires_time = values["expires_time"]
    return _policy(
        dict(values)
        | {
            "created_time": datetime.fromisoformat(values["created_time"]),
            "expires_time": datetime.fromisoformat(expires_time) if expires_time else None,
        }
    )


def _policy(properties: Mapping[str, Any]) -> Policy:
    expires_time = properties.get("expires_time")
    return Policy(
        policy_id=properties["policy_id"],
        tenant_id=properties["tenant_id"],
        owner_agent_id=properties["owner_agent_id"],
        owner_session_id=properties["owner_session_id"],
        grantee_agent_id=properties["grantee_agent_id"],
        grantee_session_id=properties["grantee_session_id"],
        kinds=frozenset(ContextUnitKind(kind) for kind in properties["kinds"]),
        created_time=to_datetime(properties["created_time"]),
        created_by=properties["created_by"],
        expires_time=None if expires_time is None else to_datetime(expires_time),
    )
