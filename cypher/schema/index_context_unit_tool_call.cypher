// Units of a session by tool call: a call and its result are one item.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: product.md, What must be true of every answer, 8

CYPHER 25
CREATE RANGE INDEX context_unit_tool_call IF NOT EXISTS
FOR (n:ContextUnit) ON (n.tenant_id, n.agent_id, n.session_id, n.tool_call_id);
