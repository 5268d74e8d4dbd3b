#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and runs ctest with the flags given: tools/test.sh -L gpu
# With a CUDA compiler the preset is gpu, otherwise cpu; MAGE_PRESET picks another.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=build.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/build.sh"

usage="Usage: tools/test.sh [flags]
  -R, -E, -L, -LE REGEX     only tests whose name (-R) or label (-L) matches, or does not (-E, -LE)
  -j N, --timeout SECONDS, --repeat MODE:N
  -V, -N, --rerun-failed, --output-on-failure, --stop-on-failure
                            all as ctest has them
  --mage_require_gpu        tests that skip for want of a GPU fail"

# Refused here is what ctest would take for nothing: words, and flags that it does not know.
flags=()
while (($#)); do
  case "$1" in
    -R | -E | -L | -LE | -j | --timeout | --repeat)
      [[ -n "${2:-}" && "${2:-}" != -* ]] || die "$1 has no value."$'\n'"$usage"
      flags+=("$1" "$2")
      shift
      ;;
    -V | -N | --rerun-failed | --output-on-failure | --stop-on-failure) flags+=("$1") ;;
    --mage_require_gpu) export MAGE_REQUIRE_GPU=1 ;;
    -h | --help)
      printf '%s\n' "$usage"
      exit
      ;;
    *) die "unknown argument '$1'."$'\n'"$usage" ;;
  esac
  shift
done

choose_preset
install_missing
install_missing_test_packages
configure
compile all
cd "$root"
exec ctest --preset "$preset" --parallel "$(nproc)" "${flags[@]}"
