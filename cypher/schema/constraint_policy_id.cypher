// One (:Policy) a policy_id in a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT policy_id IF NOT EXISTS
FOR (n:Policy) REQUIRE (n.tenant_id, n.policy_id) IS UNIQUE;
