// Retrievals of a tenant by the time their outcome was reported.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: gate B10

CYPHER 25
CREATE RANGE INDEX retrieval_reported IF NOT EXISTS
FOR (n:Retrieval) ON (n.tenant_id, n.reported_time);
