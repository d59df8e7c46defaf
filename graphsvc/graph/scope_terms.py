"""Terms that put permissions inside the full-text indexes.

Each unit carries one lower-case word a scope it belongs to; a search demands the words of the scopes its caller may
see. The words are hashes between letters and a digit, so no analyzer splits, stems or folds them.

Source: cypher_perf.md, section 4 (a tenant as an indexed field keeps recall).
"""

from __future__ import annotations

import hashlib

from graphsvc.domain.tenancy import Policy
from graphsvc.domain.units import ContextUnitKind

CURRENT_TERM = "current0"
PAST_TERM = "past0"


def _term(letter: str, *names: str) -> str:
    return letter + hashlib.sha256("\x1f".join(names).encode()).hexdigest()[:32] + "0"


def tenant_term(tenant_id: str) -> str:
    """The word of a tenant."""
    return _term("t", tenant_id)


def agent_term(tenant_id: str, agent_id: str) -> str:
    """The word of an agent of a tenant."""
    return _term("a", tenant_id, agent_id)


def session_term(tenant_id: str, agent_id: str, session_id: str) -> str:
    """The word of one agent's session."""
    return _term("s", tenant_id, agent_id, session_id)


def session_name_term(tenant_id: str, session_id: str) -> str:
    """The word of a session's name, whichever agent's: for policies that name a session and no agent."""
    return _term("n", tenant_id, session_id)


def kind_term(kind: ContextUnitKind) -> str:
    """The word of a kind."""
    return "k" + kind.value.replace("_", "") + "0"


def scope_terms(tenant_id: str, agent_id: str, session_id: str, kind: ContextUnitKind, current: bool) -> str:
    """The words of one unit, separated by spaces: its property ``scope_terms``."""
    return " ".join(
        (
            tenant_term(tenant_id),
            agent_term(tenant_id, agent_id),
            session_term(tenant_id, agent_id, session_id),
            session_name_term(tenant_id, session_id),
            kind_term(kind),
            CURRENT_TERM if current else PAST_TERM,
        )
    )


def own_clause(tenant_id: str, agent_id: str, session_id: str) -> str:
    """The Lucene clause of the caller's own units; empty when an empty scope sees none."""
    if not (tenant_id and agent_id and session_id):
        return ""
    return f"scope_terms:{session_term(tenant_id, agent_id, session_id)}"


def policy_clause(policy: Policy) -> str:
    """The Lucene clause of what a policy shares: the (:Policy) property ``scope_clause``."""
    if policy.owner_agent_id and policy.owner_session_id:
        owner = session_term(policy.tenant_id, policy.owner_agent_id, policy.owner_session_id)
    elif policy.owner_agent_id:
        owner = agent_term(policy.tenant_id, policy.owner_agent_id)
    elif policy.owner_session_id:
        owner = session_name_term(policy.tenant_id, policy.owner_session_id)
    else:
        owner = tenant_term(policy.tenant_id)
    return f"(+scope_terms:{owner} +{kinds_clause(policy.kinds)})"


def kinds_clause(kinds: frozenset[ContextUnitKind]) -> str:
    """The Lucene clause of any of these kinds; there must be one."""
    return "scope_terms:(" + " ".join(kind_term(kind) for kind in sorted(kinds)) + ")"
