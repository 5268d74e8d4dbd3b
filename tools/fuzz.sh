#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the store reader under the sanitizers: tools/fuzz.sh [seconds, 60] [libFuzzer's flags]
# What it finds is left in build/fuzz; run build/fuzz/test/fuzz/fuzz_store_reader FILE to see it again.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=build.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/build.sh"

seconds="${1:-60}"
[[ "$seconds" =~ ^[0-9]+$ ]] || die "'$seconds' is no number of seconds. Use: tools/fuzz.sh [seconds] [flags]"

has_fuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null >/dev/null 2>&1
}
if ! has_fuzzer && ! { install_packages clang libclang-rt-dev && has_fuzzer; }; then
  die "clang++ with libFuzzer is needed. Run: apt-get install clang libclang-rt-dev (build/apt.log has the last try)"
fi

MAGE_PRESET=fuzz
choose_preset
install_missing
configure
target=fuzz_store_reader
compile "$target"

# New inputs go to a corpus of their own, from which the next run goes on; the seeds stay as they are.
mkdir -p "$build/corpus/$target"
cd "$build"
exec "test/fuzz/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -dict="$root/test/fuzz/json.dict" "${@:2}" "$build/corpus/$target" "$root/test/fuzz/seeds"
