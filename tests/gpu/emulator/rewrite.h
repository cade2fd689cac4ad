// SPDX-License-Identifier: MIT
// rewrite.h - CUDA C++ to C++ for the host.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace emu
{

struct Operand {
    char shape;
    std::string text;
}; // r, a or v, as instructions.cpp says

// The C++ of one instruction, without its semicolon; "" if it is not known.
std::string translate(const std::string &opcode, const std::vector<Operand> &operands);

// `text` is preprocessed CUDA C++. False: `problem` says why.
bool rewrite(const std::string &text, std::string *out, std::string *problem);

} // namespace emu
