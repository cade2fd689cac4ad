# SPDX-License-Identifier: MIT
"""Other libraries' Python interfaces over Kiln's operators, signature by signature: `kiln.compat.flash_attn`,
`kiln.compat.flash_mla`."""
