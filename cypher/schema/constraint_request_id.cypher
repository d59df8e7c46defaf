// One (:Request) a request_id of an agent: a write repeated under it changes nothing.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT request_id IF NOT EXISTS
FOR (n:Request) REQUIRE (n.tenant_id, n.agent_id, n.request_id) IS UNIQUE;
