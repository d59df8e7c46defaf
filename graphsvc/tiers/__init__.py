"""Content in three tiers: hot (memory), warm (LMDB), cold (S3), with the outbox between warm and cold."""
