" SPDX-License-Identifier: MIT
autocmd BufNewFile,BufRead *.tile setfiletype tile
