// SPDX-License-Identifier: MIT
// shrink.h - a program that differs, with all that can be left out of it.
#ifndef TESTS_GENERATE_SHRINK_H
#define TESTS_GENERATE_SHRINK_H

#include "forms.h"

// Drops statements as long as the program alone still differs in this form, and prints what is left.
void show_smallest(Section *section, const Grid *grid, const Form *form, const Plant *plant, const Result *first);

#endif
