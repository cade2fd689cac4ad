// SPDX-License-Identifier: MIT
// image.h - how compiled code travels from the emulated NVRTC to the emulated driver.
#pragma once

#include <cstdint>

namespace emu
{

static const uint64_t IMAGE_MAGIC = 0x6574616c756d6521ull; // no ELF file begins so
struct ImageHead {
    uint64_t magic, bytes;
}; // then a shared library

} // namespace emu
