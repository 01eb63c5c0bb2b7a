#!/bin/sh
# What the image of Dockerfile.cpu runs: fetches the language model and builds the indices, unless they are there, then serves.
# All arguments are those of `crag serve`. KNOWLEDGE is a folder with photos/, animals.csv (or TABLE) and pages/, the example's zoo if unset.
set -eu
knowledge=${KNOWLEDGE:-examples/zoo}
python -m agents.models.chat.gguf --cache "$CRAG_CACHE"
crag index --images "$knowledge/photos" --table "$knowledge/${TABLE:-animals.csv}" --documents "$knowledge/pages" \
    --split "${SPLIT:-zoo}" --no-progress
exec crag serve --host 0.0.0.0 --port 8000 --split "${SPLIT:-zoo}" "$@"
