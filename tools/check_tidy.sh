#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the host files given, with the compile commands of a build folder. Files that this build does not
# compile are left out.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="${MAGE_BUILD:-}"
for preset in gpu cpu; do
  if [[ -z "$build" && -f "$root/build/$preset/compile_commands.json" ]]; then
    build="$root/build/$preset"
  fi
done
if [[ -z "$build" ]]; then
  echo "check_tidy: no compile commands. Run tools/test.sh first." >&2
  exit 2
fi

files=()
for file in "$@"; do
  if grep -qF "\"file\": \"$root/$file\"" "$build/compile_commands.json"; then
    files+=("$root/$file")
  fi
done
if [[ ${#files[@]} -gt 0 ]]; then
  clang-tidy -p "$build" --quiet "${files[@]}"
fi
