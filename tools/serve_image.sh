#!/bin/sh
# What the images of Dockerfile.cpu and Dockerfile.current run: build the indices, unless they are there, then serve.
# All arguments are those of `crag serve`. KNOWLEDGE is a folder with photos/, animals.csv (or TABLE) and pages/, the example's zoo if unset.
# PROFILE is embedded or embedded_batch, whose language model is fetched first, or one that fetches its model from the hub by itself. If unset
# it is that of `make demo`: embedded_batch, twice as fast, where the processor has AVX-512 VNNI, else embedded.
set -eu
knowledge=${KNOWLEDGE:-examples/zoo}
profile=${PROFILE:-$(grep -qs avx512_vnni /proc/cpuinfo && echo embedded_batch || echo embedded)}
case "$profile" in
embedded | embedded_batch)
    python -m agents.models.chat.gguf --cache "$CRAG_CACHE"
    ;;
esac
crag index --images "$knowledge/photos" --table "$knowledge/${TABLE:-animals.csv}" --documents "$knowledge/pages" \
    --split "${SPLIT:-zoo}" --no-progress
exec crag serve --host 0.0.0.0 --port 8000 --profile "$profile" --split "${SPLIT:-zoo}" "$@"
