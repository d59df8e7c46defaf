// Units of an agent, whichever session, in order of creation: for policies that share all sessions of an agent.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply; list_units
// Source: cypher_perf.md, section 4 (ranges last)

CYPHER 25
CREATE RANGE INDEX context_unit_agent IF NOT EXISTS
FOR (n:ContextUnit) ON (n.tenant_id, n.agent_id, n.created_time);
