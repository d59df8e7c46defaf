// The newest units of the caller's own session.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the caller's tenant.
//   caller (map): the caller's agent_id (1 to 256 bytes) and session_id (0 to 256 bytes; empty: nothing of its own is
//     returned). A map, because lengths of top-level strings and lists are part of a plan's key: one plan serves all.
//   limit (integer, 1 to 2000): units returned at most.
// Returns:
//   entries (list of list): entry of each unit.
// Order: created_time, newest first, then unit_id.
// Index: context_unit_owner.
// Visibility: the caller's own units only, by its own agent and session.
// Serves: ContextGraph.list_recent
// Source: gate N6
:param tenant_id => 'demo';
:param caller => {agent_id: 'ingest', session_id: 'main'};
:param limit => 20;

CYPHER 25
MATCH (unit:ContextUnit)
WHERE unit.tenant_id = $tenant_id AND unit.agent_id = $caller.agent_id AND unit.session_id = $caller.session_id
  AND $caller.session_id <> ''
  AND unit.created_time > datetime({epochSeconds: 0})
WITH unit
// The owner fields are constant; naming them lets the index's own order serve, instead of a sort of the whole session.
ORDER BY unit.tenant_id DESC, unit.agent_id DESC, unit.session_id DESC, unit.created_time DESC, unit.unit_id
LIMIT $limit
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
) AS entries;
