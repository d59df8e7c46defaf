// What the caller's last retrievals of the session say about units, and the tenant's predictor.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes).
//   now (datetime): policies that expire at or before it do not hold.
//   session (map): of
//     retrieval_count (integer, 1 or more): newest retrievals in which deliveries are counted.
//     deferral_count (integer, 1 or more): newest retrievals of which the deferrals are wanted.
// Returns:
//   counts (list of list): [unit_id, times] of visible units delivered, and not referenced, 1 time or more.
//   steps (list of list): [task_step, unit_ids deferred, unit_ids selected] of each retrieval, the newest first.
//   lowered (list of string): unit_ids that lost value in this session for good.
//   predictor (map or null): properties of the predictor that the tenant uses; null: the shared prior.
// Order: one row; its lists have no other order.
// Index: retrieval_session (range scan backwards), session_id, tenant_id (unique seeks).
// Serves: FeedbackStore.read_session.
// Source: gates B2 (content freshness), B10, B11.
// Visibility: steps and lowered name units of this caller's own retrievals, and are only compared with candidates.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param session => {retrieval_count: 50, deferral_count: 8};

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
  WITH retrieval
  // Naming the constant owner fields lets the index's own order serve, instead of a sort of the whole session.
  ORDER BY retrieval.tenant_id DESC, retrieval.agent_id DESC, retrieval.session_id DESC, retrieval.created_time DESC
  LIMIT $session.retrieval_count
  RETURN collect(retrieval) AS retrievals
}
CALL (grants, retrievals) {
  UNWIND retrievals AS retrieval
  // Once a retrieval: EXISTS would go through its relationships for each unit.
  WITH grants, retrieval, COLLECT { MATCH (retrieval)-[:REFERENCED]->(known) RETURN known } AS referenced
  MATCH (retrieval)-[:SELECTED]->(unit:ContextUnit)
  WHERE NOT unit IN referenced AND
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
  RETURN collect([unit_id, times]) AS counts
}
CALL (retrievals) {
  UNWIND retrievals[..$session.deferral_count] AS retrieval
  RETURN collect([
    retrieval.task_step, coalesce(retrieval.deferred_ids, []),
    COLLECT { MATCH (retrieval)-[:SELECTED]->(unit:ContextUnit) RETURN unit.unit_id }
  ]) AS steps
}
CALL (grants) {
  MATCH (:Session {tenant_id: $tenant_id, agent_id: $caller.agent_id, session_id: $caller.session_id})-[:LOWERS]->(unit)
  RETURN collect(unit.unit_id) AS lowered
}
CALL (grants) {
  MATCH (:Tenant {tenant_id: $tenant_id})-[:USES]->(predictor:Predictor)
  RETURN head(collect(properties(predictor))) AS predictor
}
RETURN counts, steps, lowered, predictor;
