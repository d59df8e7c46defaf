// One (:ApiKey) a key_id.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT api_key_id IF NOT EXISTS
FOR (n:ApiKey) REQUIRE (n.key_id) IS UNIQUE;
