// Retrievals of a session by created_time.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: cypher_perf.md, section 4

CYPHER 25
CREATE RANGE INDEX retrieval_session IF NOT EXISTS
FOR (n:Retrieval) ON (n.tenant_id, n.agent_id, n.session_id, n.created_time);
