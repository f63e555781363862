"""Certificates: what a schedule claims, proven so that it can be checked without any solver (docs/certificates.md)."""
