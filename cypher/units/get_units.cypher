// Returns the visible ones of the named units with their relations.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): agent_id and session_id again, for the shared parts; a map, so that no length is part of the plan.
//   now (datetime): policies that expire at or before it do not hold.
//   wanted (map): what is looked up: unit_ids (list of strings, 1 to 1000: ids, each once).
// Returns:
//   units (list of lists): [[task_id, provenance, tool_call_id, tool_name, tool_arguments_json, vendor_state], relations, superseded_by, entry]; the tool fields and vendor_state are null where there are none; relations are [target_id, relationship_type, role, weight] to visible units; superseded_by is the smallest visible successor's id, null: none.
// Order: one row; its list has no order.
// Index: context_unit_id (unique seek).
// Serves: UnitStore.get_units.
// Source: gate N1; product.md, 3 and 6.
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param now => datetime('2026-01-01T00:00:00Z');
:param wanted => {unit_ids: ['aaaaaaaaaaaa']};

CYPHER 25
// grants: begin
OPTIONAL MATCH (policy:Policy {tenant_id: $tenant_id})
WHERE policy.grantee_agent_id IN ['', $caller.agent_id]
  AND policy.grantee_session_id IN ['', $caller.session_id]
  AND (policy.expires_time IS NULL OR policy.expires_time > $now)
WITH collect(DISTINCT policy {.owner_agent_id, .owner_session_id, .kinds, .scope_clause}) AS grants
// grants: end
UNWIND $wanted.unit_ids AS unit_id
MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: unit_id})
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
WITH unit AS source, grants
CALL (source, grants) {
  MATCH (source)-[relation:DEPENDENCY|PROVENANCE|SUPERSESSION|CAUSATION]->(unit:ContextUnit)
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
  RETURN collect([unit.unit_id, type(relation), relation.role, relation.weight]) AS relations
}
CALL (source, grants) {
  MATCH (source)<-[:SUPERSESSION]-(unit:ContextUnit)
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
  RETURN min(unit.unit_id) AS superseded_by
}
WITH source AS unit, relations, superseded_by
RETURN collect([
  [unit.task_id, unit.provenance, unit.tool_call_id, unit.tool_name, unit.tool_arguments_json, unit.vendor_state],
  relations,
  superseded_by,
  // entry: begin
  [
    unit.unit_id, unit.unit_key, unit.agent_id, unit.session_id, unit.task_step, unit.kind, unit.epistemic_status,
    unit.timestamp.epochSeconds * 1000000 + unit.timestamp.microsecond,
    unit.created_time.epochSeconds * 1000000 + unit.created_time.microsecond,
    unit.path, unit.model, unit.tier, unit.relevance_score, unit.pinned, unit.content_sha256, unit.size_bytes,
    unit.token_count_cl100k_base, unit.token_count_o200k_base
  ]
  // entry: end
]) AS units;
