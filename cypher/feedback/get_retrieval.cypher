// Returns a retrieval of the caller's own agent and session as it was written.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes).
//   now (datetime): policies that expire at or before it do not hold.
//   retrieval_id (string): the retrieval.
// Returns:
//   retrieval (map): properties of the node.
//   selections (list of lists): [unit_id, disposition, value, cost, rank, hop_count, edge_types, features] of the units it has a relationship to and that the caller may see now.
// Order: one row; none when the retrieval is absent or somebody else's; selections have no order.
// Index: retrieval_id (unique seek).
// Serves: FeedbackStore.get_retrieval.
// Source: gates B3, B13.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param retrieval_id => 'example';

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
MATCH (retrieval:Retrieval {tenant_id: $tenant_id, retrieval_id: $retrieval_id})
WHERE retrieval.agent_id = $caller.agent_id AND retrieval.session_id = $caller.session_id
CALL (retrieval, grants) {
  MATCH (retrieval)-[selection:SELECTED|DEFERRED]->(unit:ContextUnit)
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
  RETURN collect([
    unit.unit_id, selection.disposition, selection.value, selection.cost, selection.rank, selection.hop_count,
    selection.edge_types, selection.features
  ]) AS selections
}
RETURN properties(retrieval) AS retrieval, selections;
