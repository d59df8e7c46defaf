// Units of a tenant that the caller may see, by unit_id: the rule that every statement over units contains word for word.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     seen). A map, because the lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   now (datetime): policies that expire at or before it do not hold.
//   limit (integer, 1 to 1000): units returned at most.
// Returns:
//   entry (list): the catalog entry, in the order of graphsvc/graph/rows.py; times are microseconds since 1970.
// Order: unit_id.
// Index: context_unit_id (seek by tenant_id).
// Serves: visibility of every statement; Neo4j Browser.
// Source: gate N10; graphsvc/domain/tenancy.py, is_visible.
//
// The parts between the lines "<name>: begin" and "<name>: end" are the same text in every statement that has them; the
// catalog refuses a statement whose part differs. "grants" collects the policies that hold for the caller; "visible" is
// the predicate over a node called unit; "entry" is what a retrieval returns of it.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param limit => 25;

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
MATCH (unit:ContextUnit)
WHERE unit.unit_id > '' AND
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
WITH unit
ORDER BY unit.unit_id
LIMIT $limit
RETURN
  // entry: begin
  [
    unit.unit_id, unit.unit_key, unit.agent_id, unit.session_id, unit.task_step, unit.kind, unit.epistemic_status,
    unit.timestamp.epochSeconds * 1000000 + unit.timestamp.microsecond,
    unit.created_time.epochSeconds * 1000000 + unit.created_time.microsecond,
    unit.path, unit.model, unit.tier, unit.relevance_score, unit.pinned, unit.content_sha256, unit.size_bytes,
    unit.token_count_cl100k_base, unit.token_count_o200k_base
  ]
  // entry: end
  AS entry;
