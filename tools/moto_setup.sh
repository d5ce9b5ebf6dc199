#!/usr/bin/env bash
# moto's S3 server, which checks signatures, into .deps/moto (a virtual environment): what tests/integration/s3_test.py talks to.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
venv=.deps/moto
[ -x "$venv/bin/moto_server" ] && exit 0
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check 'moto[server]==5.2.1' boto3
