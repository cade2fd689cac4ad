" SPDX-License-Identifier: MIT
" tile.vim - how .tile files are edited: as `kiln fmt` lays them out.
if exists('b:did_ftplugin') | finish | endif
let b:did_ftplugin = 1
setlocal expandtab shiftwidth=4 softtabstop=4 cindent
setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,://
let b:undo_ftplugin = 'setlocal expandtab< shiftwidth< softtabstop< cindent< commentstring< comments<'
