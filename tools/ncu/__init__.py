# SPDX-License-Identifier: Apache-2.0
"""Parts of tools/ncu_check.py."""
