#!/bin/sh
# Redis with a password that comes from a file, and is in no environment and no command line.
# Nothing may be evicted, and a restart must find everything: Shoal refuses the one and warns of the other.
set -eu
exec redis-server - <<CONFIG
requirepass "$(cat /run/secrets/redis)"
dir /data
appendonly yes
appendfsync everysec
maxmemory 2gb
maxmemory-policy noeviction
CONFIG
