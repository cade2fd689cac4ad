; SPDX-License-Identifier: MIT
; highlights.scm - what each node of the grammar is called by themes.

(comment) @comment
(string) @string
(escape) @string.escape
(number) @number
[(true) (false)] @boolean
(none) @constant.builtin
(primitive_type) @type.builtin
(element_type (identifier) @type)

(kernel name: (identifier) @function)
(operator name: (identifier) @function)
(function name: (identifier) @function)
(extern name: (identifier) @function)
(reference name: (identifier) @function)
(check name: (identifier) @function)
(verify name: (identifier) @function)
(call function: (identifier) @function.call)
(parameter name: (identifier) @variable.parameter)
(build_parameter name: (identifier) @constant)
(hint name: (identifier) @attribute)
(named_hint name: (identifier) @attribute)
(term name: (identifier) @attribute)

["kernel" "operator" "fn" "extern" "reference" "check" "verify" "const" "type" "void"] @keyword
["import"] @keyword.import
["in" "out" "inout" "optional" "strided" "shared" "fragment" "local" "temp" "cluster" "static" "unroll" "atomic"] @keyword.modifier
["if" "else"] @keyword.conditional
["for" "while" "forall" "pipeline" "stage" "on" "grid"] @keyword.repeat
["break" "continue" "return"] @keyword.return
["view" "require" "assume" "assert" "print" "layout" "input" "tolerance"] @keyword

["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";" ":"] @punctuation.delimiter
(binary operator: _ @operator)
(assignment_operator) @operator
["?" ".." "+:" "++" "--"] @operator

; words: functions
((call function: (identifier) @function.builtin)
  (#any-of? @function.builtin "exp" "exp2" "log" "log2" "sqrt" "rsqrt" "pow" "sin" "cos" "tanh" "erf" "abs" "floor"
    "ceil" "round" "rint" "trunc" "min" "max" "clamp" "fma" "ceildiv" "popcount" "clz" "ffs" "dot4" "random" "fast_tanh"
    "atomic_add" "atomic_min" "atomic_max" "atomic_and" "atomic_or" "atomic_exchange" "atomic_cas" "convert" "bitcast"
    "present" "transpose" "promote" "tf32x3" "sparse24" "cumsum" "random_int"))
; end of words
; words: constants
((identifier) @constant.builtin
  (#any-of? @constant.builtin "INFINITY" "NAN" "LOG2E" "LN2" "PI" "TARGET" "ARCH" "CHECKED"))
; end of words
