// Returns what a retrieval of the caller's own agent and session delivered, and the verdicts if there are any.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (1 to 256 bytes).
//   now (datetime): policies that expire at or before it do not hold.
//   delivery (map): of retrieval_id (string).
// Returns:
//   query_text (string): of the retrieval.
//   report_fingerprint (string or null): of the report that gave the verdicts; null: there are none.
//   units (list of list): [unit_id, content_sha256, value, methods, evidence] of the units that are there and that the caller may see now; methods and evidence are null where there is no verdict.
// Order: one row; none when the retrieval is absent or somebody else's; units have no order.
// Index: retrieval_id (unique seek).
// Serves: FeedbackStore.get_delivery; FeedbackStore.record_outcome.
// Source: gate B8.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param delivery => {retrieval_id: 'example'};

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
MATCH (retrieval:Retrieval {tenant_id: $tenant_id, retrieval_id: $delivery.retrieval_id})
WHERE retrieval.agent_id = $caller.agent_id AND retrieval.session_id = $caller.session_id
CALL (retrieval, grants) {
  MATCH (retrieval)-[selected:SELECTED]->(unit:ContextUnit)
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
  OPTIONAL MATCH (retrieval)-[verdict:REFERENCED|IGNORED]->(unit)
  RETURN collect([unit.unit_id, unit.content_sha256, selected.value, verdict.methods, verdict.evidence]) AS units
}
RETURN retrieval.query_text AS query_text, retrieval.report_fingerprint AS report_fingerprint, units;
