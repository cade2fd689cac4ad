// SPDX-License-Identifier: MIT
// skip.h - a cmocka test that skips says why, in a line that scripts/test.sh and scripts/test_gpu.sh print after its name.
#ifndef KILN_TESTS_SKIP_H
#define KILN_TESTS_SKIP_H

#include <cmocka.h>

#define skip_because(why)                                                                                              \
    do {                                                                                                               \
        print_message("reason: %s\n", why);                                                                            \
        skip();                                                                                                        \
    } while (0)

// What a test must know of a build with AddressSanitizer.
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#endif

#endif
