// The newest current units of the caller's own session.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     returned). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies and rejections that expire at or before it do not hold.
//   recent (map): a map for the same reason, of
//     limit (integer, 1 to 2000): units looked at, the newest.
//     fingerprint (string): the query's; what it rejects is left out.
//     as_of (datetime or null): only units with a timestamp up to it exist; null: all.
// Returns:
//   entries (list of list): entry of each unit that no visible unit supersedes.
// Order: created_time, newest first, then unit_id.
// Index: context_unit_owner, policy_tenant, query_fingerprint.
// Serves: ContextGraph.list_recent
// Source: gates C4, N6
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param recent => {limit: 20, fingerprint: '', as_of: null};

CYPHER 25 replan=skip
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
CALL (grants) {
  MATCH (:Query {tenant_id: $tenant_id, fingerprint: $recent.fingerprint})-[rejects:REJECTS]->(unit:ContextUnit)
  WHERE rejects.lifted_time IS NULL AND (rejects.expires_time IS NULL OR rejects.expires_time > $now)
  RETURN collect(DISTINCT unit) AS blocked
}
CALL (grants) {
  MATCH (unit:ContextUnit)
  // Planned while the graph is empty, it would read the units of the whole tenant.
  USING INDEX unit:ContextUnit(tenant_id, agent_id, session_id, created_time)
  WHERE unit.tenant_id = $tenant_id AND unit.agent_id = $caller.agent_id AND unit.session_id = $caller.session_id
    AND $caller.session_id <> ''
    AND unit.created_time > datetime({epochSeconds: 0})
    AND ($recent.as_of IS NULL OR unit.timestamp <= $recent.as_of)
  WITH unit
  // The owner fields are constant; naming them lets the index's own order serve, instead of a sort of the session.
  ORDER BY unit.tenant_id DESC, unit.agent_id DESC, unit.session_id DESC, unit.created_time DESC, unit.unit_id
  LIMIT $recent.limit
  RETURN collect(unit) AS newest
}
CALL (grants, blocked, newest) {
  UNWIND [unit IN newest WHERE NOT unit IN blocked] AS own
  CALL (grants, own) {
    MATCH (own)<-[:SUPERSESSION]-(unit)
    WHERE
      // visible: begin
      unit.tenant_id = $tenant_id
      AND (
        (unit.session_id = $caller.session_id AND unit.agent_id = $caller.agent_id AND $caller.session_id <> '')
        OR any(grant IN grants WHERE
          grant.owner_agent_id IN ['', unit.agent_id]
          AND grant.owner_session_id IN ['', unit.session_id]
          AND unit.kind IN grant.kinds)
      )
      // visible: end
      AND ($recent.as_of IS NULL OR unit.timestamp <= $recent.as_of)
    RETURN count(unit) AS successors
  }
  WITH own AS unit, successors
  WHERE successors = 0
  RETURN collect(
    // entry: begin
    [
      unit.unit_id, unit.unit_key, unit.agent_id, unit.session_id, unit.task_step, unit.kind, unit.epistemic_status,
      unit.timestamp.epochSeconds * 1000000 + unit.timestamp.microsecond,
      unit.created_time.epochSeconds * 1000000 + unit.created_time.microsecond,
      unit.path, unit.model, unit.tier, unit.relevance_score, unit.pinned, unit.content_sha256, unit.size_bytes,
      unit.token_count_cl100k_base, unit.token_count_o200k_base
    ]
    // entry: end
  ) AS entries
}
RETURN entries;
