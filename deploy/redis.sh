#!/bin/sh
# Redis with a password that comes from the environment and is in no command line.
# Nothing may be evicted, and a restart must find everything: Shoal refuses the one and warns of the other.
set -eu
exec redis-server - <<CONFIG
requirepass "$REDIS_PASSWORD"
dir /data
appendonly yes
appendfsync everysec
maxmemory 2gb
maxmemory-policy noeviction
CONFIG
