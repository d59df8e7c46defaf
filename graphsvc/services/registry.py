"""Keys and policies: who calls, and who shares what with whom.

Source: gates N9, N10; seed neutral-selection-layer, Multi-Tenant Registry Rules.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Collection
from datetime import datetime

from graphsvc.domain.content import check_name
from graphsvc.domain.errors import ErrorReason, InvalidArgument, PermissionDenied, Unauthenticated
from graphsvc.domain.tenancy import DEFAULT_SHARED_KINDS, Policy, Principal, Role
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ports import ApiKey, Clock, Read, ReadOptions, TenantStore, WriteRequest, Written

KEY_PREFIX = "gsk"
ANY_AGENT = "*"
"""owner_agent_id of a policy that shares every agent's units; in the store an empty string means any."""


class RegistryUseCases:
    """Authentication, keys, policies."""

    def __init__(self, tenants: TenantStore, clock: Clock) -> None:
        self._tenants = tenants
        self._clock = clock

    async def authenticate(self, api_key: str) -> ApiKey:
        """The key the text stands for. Looked up at every call, so that a revoked key ends at once in every process.

        Raises:
            Unauthenticated: CREDENTIALS_INVALID, whatever is wrong with it.
        """
        parts = api_key.split("_")
        if len(parts) == 3 and parts[0] == KEY_PREFIX and parts[1].isalnum() and parts[1].isascii():
            found = await self._tenants.find_key(parts[1])
            if found is not None:
                key, secret_sha256 = found
                if hmac.compare_digest(_digest(parts[2]), secret_sha256):
                    return key
        raise Unauthenticated(
            ErrorReason.CREDENTIALS_INVALID,
            "this API key is not valid here; make one with `graphsvc key create` and send it as "
            "`authorization: Bearer gsk_...`",
        )

    async def create_key(
        self, tenant_id: str, agent_id: str, roles: Collection[Role], expires_time: datetime | None = None
    ) -> tuple[ApiKey, str]:
        """A new key and its text, which is shown once: the graph keeps only its sha256.

        The secret has 200 random bits, so one round of sha256 is enough.

        Raises:
            NotFound: TENANT_NOT_FOUND.
        """
        check_name(agent_id, "agent_id")
        if not roles:
            raise InvalidArgument(ErrorReason.FIELD_REQUIRED, "a key needs at least one role", field="roles")
        key = ApiKey(
            key_id=_random_name(10),
            tenant_id=tenant_id,
            agent_id=agent_id,
            roles=frozenset(roles),
            created_time=self._clock.now(),
            expires_time=expires_time,
        )
        secret = _random_name(40)
        await self._tenants.create_key(key, _digest(secret))
        return key, f"{KEY_PREFIX}_{key.key_id}_{secret}"

    async def create_policy(
        self,
        principal: Principal,
        *,
        owner_agent_id: str,
        owner_session_id: str,
        grantee_agent_id: str,
        grantee_session_id: str,
        kinds: Collection[ContextUnitKind],
        expires_time: datetime | None,
        request: WriteRequest,
    ) -> Written[Policy]:
        """The policy made. An empty owner means the principal's own agent; no kinds mean decision and constraint.

        Raises:
            PermissionDenied: ROLE_MISSING, another agent's units without the role admin.
            InvalidArgument: FIELD_INVALID, an expiry in the past.
            ResourceExhausted: LIMIT_EXCEEDED.
        """
        owner = owner_agent_id or principal.agent_id
        if owner != principal.agent_id and Role.ADMIN not in principal.roles:
            raise PermissionDenied(
                ErrorReason.ROLE_MISSING, "only an admin may share another agent's units", required_role=Role.ADMIN
            )
        names = {
            "policy.owner_agent_id": "" if owner == ANY_AGENT else owner,
            "policy.owner_session_id": owner_session_id,
            "policy.grantee_agent_id": grantee_agent_id,
            "policy.grantee_session_id": grantee_session_id,
        }
        for field, value in names.items():
            if value:
                check_name(value, field)
        now = self._clock.now()
        if expires_time is not None and expires_time <= now:
            raise InvalidArgument(ErrorReason.FIELD_INVALID, "expires_time is in the past", field="policy.expires_time")
        policy = Policy(
            policy_id=_policy_id(principal, request.request_id),
            tenant_id=principal.tenant_id,
            owner_agent_id="" if owner == ANY_AGENT else owner,
            owner_session_id=owner_session_id,
            grantee_agent_id=grantee_agent_id,
            grantee_session_id=grantee_session_id,
            kinds=frozenset(kinds) or DEFAULT_SHARED_KINDS,
            created_time=now,
            created_by=principal.agent_id,
            expires_time=expires_time,
        )
        return await self._tenants.create_policy(principal, policy, request)

    async def list_policies(
        self, principal: Principal, after: tuple[datetime, str] | None, limit: int, options: ReadOptions
    ) -> Read[tuple[Policy, ...]]:
        """Policies the principal owns or profits from (an admin: all of the tenant), by created_time, policy_id."""
        return await self._tenants.list_policies(principal, after, limit, options)

    async def delete_policy(self, principal: Principal, policy_id: str, request: WriteRequest) -> Written[bool]:
        """Ends a policy of the principal's own (an admin: any of the tenant).

        Raises:
            NotFound: POLICY_NOT_FOUND.
        """
        return await self._tenants.delete_policy(principal, policy_id, request)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _random_name(length: int) -> str:
    return base64.b32encode(secrets.token_bytes(length))[:length].decode().lower()


def _policy_id(principal: Principal, request_id: str) -> str:
    """Derived from the request, so that a repeated request names the same policy."""
    text = "\x1f".join((principal.tenant_id, principal.agent_id, request_id))
    return "p" + base64.b32encode(hashlib.sha256(text.encode()).digest())[:11].decode().lower()
