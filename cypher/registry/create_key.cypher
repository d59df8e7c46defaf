// Stores an API key's digest and makes its agent known.
// Mode: WRITE
// Params:
//   tenant_id (string, 1 to 64 bytes): the key's tenant.
//   agent_id (string, 1 to 256 bytes): the key's agent.
//   key_id (string): the key's public part.
//   roles (list of strings): the key's roles.
//   created_time (datetime): when it is made.
//   expires_time (datetime): from when it does not hold; null: never.
//   secret_sha256 (string, 64 hex digits): digest of its secret; the secret itself is never stored.
// Returns:
//   key_id (string): the key's.
// Order: one row; none when the tenant is unknown.
// Index: tenant_id, agent_id (unique seeks).
// Serves: TenantStore.create_key.
// Source: design.md, Names.
:param tenant_id => 'demo';
:param agent_id => 'ingest';
:param key_id => 'example';
:param roles => ['reader'];
:param created_time => datetime('2026-01-01T00:00:00Z');
:param expires_time => null;
:param secret_sha256 => '0000000000000000000000000000000000000000000000000000000000000000';

CYPHER 25
MATCH (:Tenant {tenant_id: $tenant_id})
MERGE (agent:Agent {tenant_id: $tenant_id, agent_id: $agent_id})
  ON CREATE SET agent.created_time = $created_time
CREATE (key:ApiKey {
  key_id: $key_id, tenant_id: $tenant_id, agent_id: $agent_id, roles: $roles, secret_sha256: $secret_sha256,
  created_time: $created_time, expires_time: $expires_time})
RETURN key.key_id AS key_id;
