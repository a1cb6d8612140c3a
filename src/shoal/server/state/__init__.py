"""What lives as long as the server: what handlers share, and the snapshots that clients follow."""
