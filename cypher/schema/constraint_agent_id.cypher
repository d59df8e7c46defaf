// One (:Agent) an agent_id in a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT agent_id IF NOT EXISTS
FOR (n:Agent) REQUIRE (n.tenant_id, n.agent_id) IS UNIQUE;
