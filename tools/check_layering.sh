#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the #include lines of the work tree by the rules of test/layering_test.cpp, which needs no build folder.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"${CXX:-g++}" -std=c++20 "-DMAGE_SOURCE_DIR=\"$root\"" "$root/test/layering_test.cpp" \
  -o "$work/layering_test" -lgtest -lgtest_main -pthread
"$work/layering_test" --gtest_brief=1
