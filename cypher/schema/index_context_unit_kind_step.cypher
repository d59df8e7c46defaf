// Units of a session by kind and step: its turn order, read only as far as the kinds that a caller may see.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply; list_neighbours
// Source: gate N2 (turn order is (session_id, task_step))

CYPHER 25
CREATE RANGE INDEX context_unit_kind_step IF NOT EXISTS
FOR (n:ContextUnit) ON (n.tenant_id, n.agent_id, n.session_id, n.kind, n.task_step);
