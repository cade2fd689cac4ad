;;; tile-mode.el --- .tile files of Kiln -*- lexical-binding: t -*-
;; SPDX-License-Identifier: MIT
;;; Commentary:
;; Colours, comments and indentation; `kiln lsp' by Eglot, and `kiln fmt' on C-c C-f.
;; The lists of words are made by editors/words.py.
;;; Code:

;; words
(defconst tile-mode-types
  '("f64" "f32" "tf32" "f16" "bf16" "e4m3" "e5m2" "e2m1" "int" "i64" "i32" "i16" "i8" "i4" "i2" "u64" "u32" "u16" "u8"
    "u4" "u2" "bool" "e8m0")
  "Element types.")
(defconst tile-mode-keywords
  '("break" "continue" "else" "for" "forall" "if" "pipeline" "return" "void" "while" "atomic" "const" "fragment" "local"
    "shared" "static" "unroll" "import" "kernel" "fn" "operator" "extern" "check" "reference" "verify" "optional" "in"
    "out" "inout" "strided" "type")
  "Words of declarations and statements.")
(defconst tile-mode-constants
  '("false" "none" "true" "INFINITY" "NAN" "LOG2E" "LN2" "PI" "TARGET" "ARCH" "CHECKED")
  "Constants of the language.")
(defconst tile-mode-functions
  '("exp" "exp2" "log" "log2" "sqrt" "rsqrt" "pow" "sin" "cos" "tanh" "erf" "abs" "floor" "ceil" "round" "rint" "trunc"
    "min" "max" "clamp" "fma" "ceildiv" "popcount" "clz" "ffs" "dot4" "random" "fast_tanh" "atomic_add" "atomic_min"
    "atomic_max" "atomic_and" "atomic_or" "atomic_exchange" "atomic_cas" "convert" "bitcast" "present" "transpose"
    "promote" "tf32x3" "sparse24" "cumsum" "random_int")
  "Built-in functions.")
(defconst tile-mode-statements
  '("grid" "on" "require" "assume" "assert" "print" "layout" "stage" "view" "input" "tolerance" "cluster" "temp")
  "Words that begin a statement.")
(defconst tile-mode-hints
  '("warps" "occupancy" "rasterize" "persistent" "cluster" "early" "accept" "swizzle" "padded" "rows" "columns"
    "partial" "transposed" "stages" "normal" "uniform" "permutation" "sorted" "relative" "absolute" "cosine" "outliers"
    "exact")
  "Hints, and the words of checks.")
;; end of words

(defvar tile-mode-font-lock-keywords
  `(("\\_<\\(?:kernel\\|operator\\|reference\\|check\\|verify\\)\\s-+\\(\\(?:\\sw\\|\\s_\\)+\\)" 1 font-lock-function-name-face)
    ("\\_<fn\\s-+\\(?:\\sw\\|\\s_\\)+\\s-+\\(\\(?:\\sw\\|\\s_\\)+\\)" 1 font-lock-function-name-face)
    (,(regexp-opt tile-mode-types 'symbols) . font-lock-type-face)
    (,(regexp-opt tile-mode-keywords 'symbols) . font-lock-keyword-face)
    (,(regexp-opt tile-mode-constants 'symbols) . font-lock-constant-face)
    ;; Only before a parenthesis: elsewhere these are names.
    (,(concat (regexp-opt tile-mode-functions 'symbols) "\\s-*[(<]") 1 font-lock-builtin-face)
    (,(concat (regexp-opt tile-mode-statements 'symbols) "\\s-*[(]") 1 font-lock-keyword-face)
    (,(concat "^\\s-*" (regexp-opt tile-mode-statements 'symbols) "\\s-") 1 font-lock-keyword-face)
    (,(concat (regexp-opt tile-mode-hints 'symbols) "\\s-*[(]") 1 font-lock-preprocessor-face))
  "What is coloured in `tile-mode'.")

(defvar tile-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?_ "_" table)
    (modify-syntax-entry ?/ ". 124b" table)
    (modify-syntax-entry ?* ". 23" table)
    (modify-syntax-entry ?\n "> b" table)
    (modify-syntax-entry ?\" "\"" table)
    (dolist (operator '(?+ ?- ?% ?& ?| ?^ ?< ?> ?= ?! ?~ ?? ?@))
      (modify-syntax-entry operator "." table))
    table)
  "The syntax of .tile files.")

(defcustom tile-mode-indent 4
  "Columns of a block, as `kiln fmt' has them."
  :type 'integer :group 'languages :safe #'integerp)

(defun tile-mode-indent-line ()
  "Indent the line by the brackets that are open before it."
  (interactive)
  (let ((column (save-excursion
                  (back-to-indentation)
                  (let ((closes (looking-at "[])}]")) (open (nth 1 (syntax-ppss))))
                    (cond ((null open) 0)
                          (closes (goto-char open) (current-indentation))
                          (t (goto-char open) (+ (current-indentation) tile-mode-indent)))))))
    (if (<= (current-column) (current-indentation))
        (indent-line-to column)
      (save-excursion (indent-line-to column)))))

(defun tile-mode-format ()
  "Write the buffer as `kiln fmt' does."
  (interactive)
  (save-buffer)
  (if (zerop (call-process "kiln" nil nil nil "fmt" buffer-file-name))
      (revert-buffer t t t)
    (message "kiln fmt: the file has mistakes")))

(defvar tile-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-f") #'tile-mode-format)
    map)
  "The keys of `tile-mode'.")

;;;###autoload
(define-derived-mode tile-mode prog-mode "Tile"
  "A mode for kernels of Kiln."
  (setq-local font-lock-defaults '(tile-mode-font-lock-keywords))
  (setq-local indent-line-function #'tile-mode-indent-line)
  (setq-local comment-start "// ")
  (setq-local comment-end "")
  (setq-local comment-start-skip "\\(?://+\\|/\\*+\\)\\s-*"))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.tile\\'" . tile-mode))

(defvar eglot-server-programs)
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(tile-mode . ("kiln" "lsp"))))

(provide 'tile-mode)
;;; tile-mode.el ends here
