"""The gRPC edge: identity, messages to domain types and back, errors as google.rpc.Status."""
