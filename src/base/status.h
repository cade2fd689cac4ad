// SPDX-License-Identifier: MIT
// status.h - how a failing call of the library leaves its message behind: status and text, per thread.
#ifndef KILN_BASE_STATUS_H
#define KILN_BASE_STATUS_H

#include "kiln/kiln.h"

// Sets this thread's message and returns `status`. Never fails: a text that finds no memory is cut short.
kiln_status status_fail(kiln_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Whether a caller's struct, `what` in the message, has the size that this library knows; 0 stands for that. When a struct
// grows, the sizes it had are known, too: copy it then, with zeros for what the caller's has not.
kiln_status status_check_size(const char *what, size_t given, size_t known);
// Puts "PREFIX: " before the message of the call that has just failed.
void status_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));
// The message so far, to be carried from a worker thread to the one that launched. Valid until the next failure.
#define status_message() kiln_error_message()

#endif
