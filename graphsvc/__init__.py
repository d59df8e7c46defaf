"""graphsvc: context for AI agents that is worth its tokens."""
