"""Blobs, uploads, scene versions and their inspection reports."""
