#!/bin/sh
# One SeaweedFS process with an S3 door: the key comes from a file, so that it is in no environment and no command line.
set -eu
umask 077
cat > /tmp/s3.json <<CONFIG
{"identities": [{"name": "shoal", "credentials": [{"accessKey": "shoal", "secretKey": "$(cat /run/secrets/s3)"}],
  "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
CONFIG
# The bucket has to be there before the first worker asks for it.
(
  until wget -q -O /dev/null http://127.0.0.1:8333/healthz; do sleep 1; done
  echo "s3.bucket.create -name shoal" | weed shell >/dev/null
) &
exec weed server -dir=/data -s3 -s3.config=/tmp/s3.json -ip.bind=0.0.0.0 -master.volumeSizeLimitMB=1024
