" SPDX-License-Identifier: MIT
" tile.vim - colours of .tile files. The lists of words are made by editors/words.py.
if exists('b:current_syntax') | finish | endif

" words
syntax keyword tileReserved break continue else for forall if pipeline return void while
syntax keyword tileModifier atomic const fragment local shared static unroll
syntax keyword tileDeclaration import kernel fn operator extern check reference verify
syntax keyword tileType f64 f32 tf32 f16 bf16 e4m3 e5m2 e2m1 int i64 i32 i16 i8 i4 i2 u64 u32 u16 u8 u4 u2 bool e8m0
syntax keyword tileConstant false none true INFINITY NAN LOG2E LN2 PI TARGET ARCH CHECKED
syntax match tileModifier '\<\(optional\|in\|out\|inout\|strided\|type\)\>\ze\s\+\h'
syntax match tileWord '\<\(grid\|on\|require\|assume\|assert\|print\|layout\|stage\|view\|input\|tolerance\|cluster\|temp\)\>\ze\s*\((\|\h\|:\|\d\)'
syntax match tileHint '\<\(warps\|occupancy\|rasterize\|persistent\|cluster\|early\|accept\|swizzle\|padded\|rows\|columns\|partial\|transposed\|stages\|normal\|uniform\|permutation\|sorted\|relative\|absolute\|cosine\|outliers\|exact\)\>\ze\(\s*(\|\s\+[0-9.]\)'
syntax match tileFunction '\<\(exp\|exp2\|log\|log2\|sqrt\|rsqrt\|pow\|sin\|cos\|tanh\|erf\|abs\|floor\|ceil\|round\|rint\|trunc\|min\|max\|clamp\|fma\|ceildiv\|popcount\|clz\|ffs\|dot4\|random\|fast_tanh\|atomic_add\|atomic_min\|atomic_max\|atomic_and\|atomic_or\|atomic_exchange\|atomic_cas\|convert\|bitcast\|present\|transpose\|promote\|tf32x3\|sparse24\|cumsum\|random_int\)\>\ze\s*[(<]'
" end of words

syntax match tileOperator '+:\|@\|\.\.\|[-+*/%&|^<>=!~?]'
syntax keyword tileTodo contained TODO FIXME
syntax match tileComment '//.*$' contains=tileTodo,@Spell
syntax region tileComment start='/\*' end='\*/' contains=tileTodo,@Spell
syntax match tileEscape '\\.' contained
syntax region tileString start='"' skip='\\.' end='"\|$' contains=tileEscape
syntax match tileNumber '\<0[xX][0-9a-fA-F_'']\+\>\|\<0[bB][01_'']\+\>\|\<\d[0-9_'']*\(\.\d[0-9_'']*\)\?\([eE][+-]\?\d\+\)\?\>'
syntax match tileFunctionName '\(\<\(kernel\|operator\|reference\|check\|verify\)\s\+\)\@<=\h\w*'
syntax match tileFunctionName '\(\<fn\s\+\h\w*\s\+\)\@<=\h\w*'

highlight default link tileReserved Statement
highlight default link tileDeclaration Keyword
highlight default link tileModifier StorageClass
highlight default link tileWord Statement
highlight default link tileHint PreProc
highlight default link tileType Type
highlight default link tileConstant Constant
highlight default link tileFunction Function
highlight default link tileFunctionName Identifier
highlight default link tileTodo Todo
highlight default link tileComment Comment
highlight default link tileString String
highlight default link tileEscape SpecialChar
highlight default link tileNumber Number
highlight default link tileOperator Operator
let b:current_syntax = 'tile'
