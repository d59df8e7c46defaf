// Returns a tenant's API keys that are not revoked, without secrets.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the tenant.
// Returns:
//   key_id (string): the key's public part.
//   agent_id (string): the key's agent.
//   roles (list of strings): the key's roles.
//   created_time (datetime): when it was made.
//   expires_time (datetime): from when it does not hold; null: never.
// Order: created_time, key_id.
// Index: api_key_tenant (seek).
// Serves: TenantStore.list_keys.
// Source: design.md, Errors, config, logs.
:param tenant_id => 'demo';

CYPHER 25
MATCH (key:ApiKey {tenant_id: $tenant_id})
WHERE key.revoked_time IS NULL
RETURN key.key_id AS key_id, key.agent_id AS agent_id, key.roles AS roles, key.created_time AS created_time,
  key.expires_time AS expires_time
ORDER BY created_time, key_id;
