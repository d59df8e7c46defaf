// Returns how often each unit was selected in the caller's last retrievals of the session without being referenced.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes).
//   now (datetime): policies that expire at or before it do not hold.
//   retrieval_count (integer, 1 or more): retrievals looked at, the newest.
// Returns:
//   counts (list of lists): [unit_id, times] of visible units, times 1 or more.
// Order: one row; its list has no order.
// Index: retrieval_session (range scan backwards).
// Serves: FeedbackStore.count_unreferenced.
// Source: gate B2 (content freshness).
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param retrieval_count => 50;

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
CALL (grants) {
  MATCH (retrieval:Retrieval {tenant_id: $tenant_id, agent_id: $caller.agent_id, session_id: $caller.session_id})
  WHERE retrieval.created_time IS NOT NULL
  RETURN retrieval
  ORDER BY retrieval.created_time DESC
  LIMIT $retrieval_count
}
MATCH (retrieval)-[:SELECTED]->(unit:ContextUnit)
WHERE NOT EXISTS { (retrieval)-[:REFERENCED]->(unit) }
  AND
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
WITH unit.unit_id AS unit_id, count(*) AS times
RETURN collect([unit_id, times]) AS counts;
