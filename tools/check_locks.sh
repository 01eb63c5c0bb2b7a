#!/usr/bin/env bash
# Checks that locks which are installed together can be resolved, and that they name all that they need: pip is told not to look for more.
# Usage: tools/check_locks.sh UV LOCK ...     As in the image of the competition: Python 3.11 on Linux.
set -euo pipefail
uv=$1
resolve() {
  "$uv" pip compile --quiet --no-config --no-header --no-annotate --python-version 3.11.13 --python-platform x86_64-manylinux_2_28 "$@" "${locks[@]}"
}
locks=("${@:2}")
needed=$(resolve) && named=$(resolve --no-deps)
if ! missing=$(diff <(echo "$named") <(echo "$needed")); then
  echo "${locks[*]}: not all that is needed is named. Run make lock or make lock-gpu." >&2
  echo "$missing" >&2
  exit 1
fi
echo "${locks[*]}: ok, $(wc -l <<< "$needed") packages"
