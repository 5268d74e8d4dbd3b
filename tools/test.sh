#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and runs ctest with the flags given: tools/test.sh -L gpu
# With a CUDA compiler the preset is gpu, otherwise cpu; MAGE_PRESET picks another.
# --mage_require_gpu turns tests that skip for want of a GPU into failures.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR source=build.sh
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/build.sh"

flags=()
for flag in "$@"; do
  if [[ "$flag" == --mage_require_gpu ]]; then
    export MAGE_REQUIRE_GPU=1
  elif [[ "$flag" == --mage_* || "$flag" == *require* ]]; then # ctest takes any flag it does not know for nothing
    die "unknown flag $flag. Known: --mage_require_gpu, and ctest's"
  else
    flags+=("$flag")
  fi
done

choose_preset
install_missing
install_missing_test_packages
configure
compile all
cd "$root"
exec ctest --preset "$preset" --parallel "$(nproc)" "${flags[@]}"
