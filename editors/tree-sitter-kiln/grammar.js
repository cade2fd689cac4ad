// SPDX-License-Identifier: MIT
// grammar.js - the grammar of .tile files for tree-sitter: that of docs/language.md, 14, rule by rule.
//
// Words that mean something at one place only are names elsewhere: they are no tokens where the grammar has no place for them.
// Whether `<` opens build arguments is decided by what follows: both readings go on, and that of a call is preferred.
/// <reference types="tree-sitter-cli/dsl" />

// words: types; made by editors/words.py
const TYPES = ['f64', 'f32', 'tf32', 'f16', 'bf16', 'e4m3', 'e5m2', 'e2m1', 'int', 'i64', 'i32', 'i16', 'i8', 'i4',
  'i2', 'u64', 'u32', 'u16', 'u8', 'u4', 'u2', 'bool', 'e8m0'];
// end of words

const PREC = { select: 1, or: 2, and: 3, bit_or: 4, bit_xor: 5, bit_and: 6, equal: 7, compare: 8, shift: 9, add: 10, multiply: 11, unary: 12, postfix: 13 };

const list = (rule) => seq(rule, repeat(seq(',', rule)));

// The operators of `binary`, over operands of `rule`; `build`: without comparisons of size and shifts to the right.
function binaries($, rule, build) {
  const rows = [
    ['||', PREC.or], ['&&', PREC.and], ['|', PREC.bit_or], ['^', PREC.bit_xor], ['&', PREC.bit_and], ['==', PREC.equal], ['!=', PREC.equal],
    ['<<', PREC.shift], ['+', PREC.add], ['-', PREC.add], ['*', PREC.multiply], ['/', PREC.multiply], ['%', PREC.multiply], ['@', PREC.multiply],
  ];
  if (!build) rows.push(['<', PREC.compare], ['<=', PREC.compare], ['>', PREC.compare], ['>=', PREC.compare], ['>>', PREC.shift]);
  return choice(...rows.map(([operator, precedence]) =>
    prec.left(precedence, seq(field('left', rule), field('operator', operator), field('right', rule)))));
}

module.exports = grammar({
  name: 'kiln',
  word: $ => $.identifier,
  extras: $ => [/\s/, $.comment],
  supertypes: $ => [$._declaration, $._statement, $._expression],
  conflicts: $ => [[$._primary, $.call]],

  rules: {
    file: $ => repeat($._declaration),

    // ---- declarations
    _declaration: $ => choice($.constant, $.import, $.kernel, $.operator, $.function, $.extern, $.reference, $.check, $.verify),
    import: $ => prec.right(seq('import', $.string, optional(';'))),
    constant: $ => seq('const', field('type', $.element_type), list($.declarator), ';'),
    kernel: $ => seq('kernel', field('name', $.identifier), optional($.build_parameters), $.parameters, field('body', $.block)),
    operator: $ => seq('operator', field('name', $.identifier), optional($.build_parameters), $.parameters, field('body', $.block)),
    function: $ => seq('fn', field('type', choice('void', $.element_type)), field('name', $.identifier), optional($.build_parameters),
      $.parameters, field('body', $.block)),
    extern: $ => seq('extern', field('target', $.identifier), 'fn', field('type', choice('void', $.element_type)), field('name', $.identifier),
      optional($.build_parameters), $.parameters, ';'),
    reference: $ => seq('reference', field('name', $.identifier), optional(seq(optional($.build_parameters), $.parameters)), field('body', $.block)),
    check: $ => seq('check', field('name', $.identifier), optional(seq('<', list($.named_value), '>')), optional(seq('(', optional(list($.named_value)), ')')),
      field('body', $.block)),
    verify: $ => seq('verify', field('name', $.identifier), field('body', $.block)),
    build_parameters: $ => seq('<', list($.build_parameter), '>'),
    build_parameter: $ => seq(field('kind', choice('type', 'fn', $.primitive_type)), field('name', $.identifier), optional(seq('=', field('value', $._build_value)))),
    parameters: $ => seq('(', optional(list($.parameter)), ')'),
    parameter: $ => seq(optional('optional'), optional(choice('in', 'out', 'inout')), optional('strided'),
      field('type', $.element_type), field('name', $.identifier), repeat($.extent)),
    named_value: $ => seq(field('name', $.identifier), '=', field('value', $._build_value)),

    // ---- statements
    block: $ => seq('{', repeat($._statement), '}'),
    _statement: $ => choice($.block, $.declaration_statement, $.expression_statement, $.atomic, $.if, $.for, $.while, $.forall, $.pipeline,
      $.stage, $.on, $.jump, $.return, $.view, $.grid, $.claim, $.print, $.layout, $.input, $.tolerance),
    declaration_statement: $ => seq($._declare, ';'),
    expression_statement: $ => seq(choice($.assignment, $.step, $._expression), ';'),
    _simple: $ => choice(alias($._declare, $.declaration), $.assignment, $.step, $._expression),
    _declare: $ => seq(optional('const'), optional($.storage), field('type', $.element_type), list($.declarator)),
    storage: $ => choice('shared', seq('cluster', 'shared'), 'fragment', 'local', 'temp'),
    declarator: $ => seq(field('name', $.identifier), repeat($.extent), optional(seq('=', field('value', $._expression)))),
    extent: $ => seq('[', $._expression, ']'),
    view: $ => seq('view', optional(field('type', $.element_type)), list($.declarator), ';'),
    assignment: $ => seq(field('left', $._expression), field('operator', $.assignment_operator), field('right', $._expression)),
    assignment_operator: _ => choice('=', '+=', '-=', '*=', '/=', '%=', '&=', '|=', '^=', '<<=', '>>=', 'min=', 'max='),
    step: $ => seq($._expression, choice('++', '--')),
    atomic: $ => seq('atomic', $.assignment, ';'),
    if: $ => prec.right(seq(optional('static'), 'if', '(', field('condition', $._expression), ')', $._statement, optional(seq('else', $._statement)))),
    for: $ => seq(optional('unroll'), 'for', '(', optional($._simple), ';', optional($._expression), ';', optional($._simple), ')', $._statement),
    while: $ => seq('while', '(', field('condition', $._expression), ')', $._statement),
    forall: $ => seq('forall', '(', list($.index), ')', $._statement),
    pipeline: $ => seq('pipeline', '(', list($.index), optional(seq(';', list($.named_hint))), ')', $._statement),
    named_hint: $ => seq(field('name', $.identifier), '=', $._expression),
    index: $ => seq(field('name', $.identifier), ':', $._expression, optional(seq('..', $._expression))),
    stage: $ => seq('stage', $._expression, ':'),
    on: $ => seq('on', '(', list($._expression), ')', $._statement),
    jump: _ => seq(choice('break', 'continue'), ';'),
    return: $ => seq('return', optional($._expression), ';'),
    grid: $ => seq('grid', '(', optional(list($.index)), ')', repeat($.hint), ';'),
    hint: $ => seq(field('name', $.identifier), optional(seq('(', choice(
      seq(optional(seq(field('argument', $.identifier), '=')), $._expression), seq(field('kind', $.identifier), ',', $.string)), ')'))),
    claim: $ => seq(choice('require', 'assume', 'assert'), '(', $._expression, optional(seq(',', $._expression)), ')', ';'),
    print: $ => seq('print', '(', $.string, repeat(seq(',', $._expression)), ')', ';'),
    layout: $ => seq('layout', '(', $._expression, ')', '=', $.hint, ';'),
    input: $ => seq('input', list($.identifier), '=', $._expression, ';'),
    tolerance: $ => seq('tolerance', optional(seq(optional(field('output', $.identifier)), ':')), list($.term), ';'),
    term: $ => seq(field('name', $.identifier), optional($._expression)),

    // ---- expressions
    _expression: $ => choice($._operand, $.binary, $.select),
    _operand: $ => choice($._primary, $.unary, $.subscript),
    select: $ => prec.right(PREC.select, seq($._expression, '?', $._expression, ':', $._expression)),
    binary: $ => binaries($, $._expression, false),
    unary: $ => prec(PREC.unary, seq(choice('-', '+', '!', '~'), $._operand)),
    subscript: $ => prec(PREC.postfix, seq(choice($._primary, $.subscript), '[', choice(':', $._expression, $.slice), ']')),
    slice: $ => seq(field('start', $._expression), '+:', field('width', $._expression), optional(seq(':', field('step', $._expression)))),
    _primary: $ => choice($.number, $.string, $.true, $.false, $.none, $.primitive_type, $.identifier, $.call, $.parenthesized, $.set),
    parenthesized: $ => seq('(', $._expression, ')'),
    set: $ => seq('{', list($._expression), '}'),
    call: $ => prec.dynamic(1, seq(field('function', $.identifier), optional($.build_arguments),
      '(', optional(list($._expression)), ')')),
    build_arguments: $ => seq('<', list($._build_value), '>'),
    _build_value: $ => choice($._operand, alias($.build_binary, $.binary), alias($.build_select, $.select)),
    build_select: $ => prec.right(PREC.select, seq($._build_value, '?', $._build_value, ':', $._build_value)),
    build_binary: $ => binaries($, $._build_value, true),

    // ---- words
    element_type: $ => choice($.primitive_type, $.identifier),
    primitive_type: _ => choice(...TYPES),
    true: _ => 'true',
    false: _ => 'false',
    none: _ => 'none',
    identifier: _ => /[A-Za-z_][A-Za-z0-9_]*/,
    number: _ => token(choice(/0[xX][0-9a-fA-F_']+/, /0[bB][01_']+/, /[0-9][0-9_']*(\.[0-9][0-9_']*)?([eE][+-]?[0-9]+)?/)),
    string: $ => seq('"', repeat(choice(token.immediate(/[^"\\\n]+/), $.escape)), token.immediate('"')),
    escape: _ => token.immediate(/\\./),
    comment: _ => token(choice(seq('//', /[^\n]*/), seq('/*', /[^*]*\*+([^/*][^*]*\*+)*/, '/'))),
  },
});
