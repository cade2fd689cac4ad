" SPDX-License-Identifier: MIT
" words_test.vim - what colours the Vim files give: $FOUND gets a line 'word group' for each word of the buffer.
set nocompatible noswapfile viminfo=
execute 'set runtimepath^=' . $EDITORS . '/vim'
filetype plugin on
syntax on
edit $SOURCE
let s:found = [&filetype . ' ' . &commentstring]
for s:line in range(1, line('$'))
    let s:column = 0
    while 1
        let s:column = match(getline(s:line), '[A-Za-z_0-9.]\+', s:column)
        if s:column < 0 | break | endif
        let s:word = matchstr(getline(s:line), '[A-Za-z_0-9.]\+', s:column)
        call add(s:found, s:word . ' ' . synIDattr(synID(s:line, s:column + 1, 1), 'name'))
        let s:column += len(s:word)
    endwhile
endfor
call writefile(s:found, $FOUND)
quitall!
