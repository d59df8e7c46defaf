"""Who asks, and what they may see.

The one visibility predicate stands here in Python and, word for word the same rule, in ``cypher/visibility.cypher``.
Source: gate N10; seed neutral-selection-layer, Multi-Tenant Registry Rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from graphsvc.domain.units import ContextUnitKind


class Role(StrEnum):
    """What a key allows. Each is named on the key; none implies another."""

    READER = "reader"
    WRITER = "writer"
    ANALYST = "analyst"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. Tenant, agent and roles come from the credentials, never from a message; the session from the call.

    Attributes:
        session_id: the agent's own session this call works in; never empty for reads and writes of units.
        model: model id the session runs on; empty: none named.
    """

    tenant_id: str
    agent_id: str
    session_id: str
    roles: frozenset[Role]
    model: str = ""
    key_id: str = ""


DEFAULT_SHARED_KINDS = frozenset({ContextUnitKind.DECISION, ContextUnitKind.CONSTRAINT})
"""What a policy covers that names no kinds."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An opt-in share of an owner's units with a grantee of the same tenant.

    Attributes:
        owner_agent_id: whose units; empty: every agent's (only an admin may say so).
        owner_session_id: units of which session; empty: every session.
        grantee_agent_id: who may see them; empty: every agent of the tenant.
        grantee_session_id: in which session; empty: every session.
        kinds: which kinds; never empty (:data:`DEFAULT_SHARED_KINDS` is filled in when none is named).
        expires_time: from when it no longer holds; None: never.
    """

    policy_id: str
    tenant_id: str
    owner_agent_id: str
    owner_session_id: str
    grantee_agent_id: str
    grantee_session_id: str
    kinds: frozenset[ContextUnitKind]
    created_time: datetime
    created_by: str
    expires_time: datetime | None = None

    def grants(self, principal: Principal, now: datetime) -> bool:
        """Whether the policy holds for this principal at this time."""
        return (
            self.tenant_id == principal.tenant_id
            and self.grantee_agent_id in ("", principal.agent_id)
            and self.grantee_session_id in ("", principal.session_id)
            and (self.expires_time is None or self.expires_time > now)
        )


def is_visible(
    principal: Principal,
    policies: Iterable[Policy],
    *,
    tenant_id: str,
    agent_id: str,
    session_id: str,
    kind: ContextUnitKind,
    now: datetime,
) -> bool:
    """Whether the principal may see a unit with these owner fields.

    A unit is private to its agent and session; a policy of the same tenant may share it. Nothing crosses tenants, and
    an empty session of the principal sees nothing of its own.
    """
    if tenant_id != principal.tenant_id:
        return False
    if principal.session_id and agent_id == principal.agent_id and session_id == principal.session_id:
        return True
    return any(
        policy.grants(principal, now)
        and policy.owner_agent_id in ("", agent_id)
        and policy.owner_session_id in ("", session_id)
        and kind in policy.kinds
        for policy in policies
    )
