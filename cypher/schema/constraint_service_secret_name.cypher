// One (:ServiceSecret) a name.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT service_secret_name IF NOT EXISTS
FOR (n:ServiceSecret) REQUIRE (n.name) IS UNIQUE;
