// Returns the secret that all processes on this database share; the first caller's value becomes it.
// Mode: WRITE
// Params:
//   name (string): what the secret is for.
//   value (string, base64): a fresh random value, kept when there is none yet.
// Returns:
//   value (string, base64): the secret.
// Order: one row.
// Index: service_secret_name (unique seek).
// Serves: tenant_store.load_service_secret.
// Source: design.md, Invariants (nothing relies on a process-local lock).
:param name => 'example';
:param value => 'ZXhhbXBsZQ==';

CYPHER 25
MERGE (secret:ServiceSecret {name: $name})
  ON CREATE SET secret.value = $value
RETURN secret.value AS value;
