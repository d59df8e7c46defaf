"""Vendor adapters: each renders context units for one request format. Found through entry points, never imported."""
