// One (:Session) a session_id of an agent.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT session_id IF NOT EXISTS
FOR (n:Session) REQUIRE (n.tenant_id, n.agent_id, n.session_id) IS UNIQUE;
