#!/bin/sh
# Make the passwords of compose.yaml, in deploy/secrets: one file each, of random letters and digits. What is there
# already stays as it is; put a password of your own there if you like.
#
# Containers read the files as other users, so the files are readable by all, and the folder by its owner only.
set -eu
umask 077
folder=${1:-$(dirname "$0")/secrets}
mkdir -p "$folder"
for name in redis postgres s3 grafana; do
  if [ ! -s "$folder/$name" ]; then
    od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$folder/$name.new"
    chmod 444 "$folder/$name.new"
    mv "$folder/$name.new" "$folder/$name"
    echo "made $folder/$name"
  fi
done
