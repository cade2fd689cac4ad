;; SPDX-License-Identifier: MIT
;; words_test.el - what faces tile-mode gives: $FOUND gets a line 'word face' for each word of the buffer.
(require 'tile-mode)
(let ((found ""))
  (find-file (getenv "SOURCE"))
  (unless (eq major-mode 'tile-mode) (error "The mode is %s" major-mode))
  (font-lock-ensure)
  (goto-char (point-min))
  (while (re-search-forward "[A-Za-z_0-9.]+" nil t)
    (setq found (format "%s%s %s\n" found (match-string 0) (get-text-property (match-beginning 0) 'face))))
  (let ((before (buffer-string)))
    (indent-region (point-min) (point-max))
    (unless (string= before (buffer-string)) (error "Indented otherwise: %s" (buffer-string))))
  (write-region found nil (getenv "FOUND")))
