// SPDX-License-Identifier: MIT
// trace.h - what a traced CUDA kernel writes, and where: cuda/prelude/trace.cuh writes it, tools/trace_read.c reads it.
//
// A traced build (Target.trace) notes, for a few chosen CTAs, when one lane of each warp begins and ends each wait and each
// step of its loops. The clock is the multiprocessor's (clock64): it counts cycles, costs few, and is the same for all warps
// of a CTA; globaltimer, which all multiprocessors share, moves in steps of up to a microsecond, so it is read only where a
// warp begins and ends: to place CTAs beside each other, and to turn cycles into seconds.
//
// Memory, in words of 64 bits: a header of TRACE_WORDS, then TRACE_WORDS for each warp (a track), those of the first chosen
// CTA first. All of it is zero before a launch but the header, whose first TRACE_CTAS words are numbers of CTAs plus one.
//
//     track[TRACE_BEGIN_NS], [TRACE_BEGIN]   globaltimer and clock where the warp's role begins; 0: no such warp
//     track[TRACE_END_NS], [TRACE_END]       where it ends; 0: it left before
//     track[TRACE_LOST]                      records that found no room
//     track[TRACE_RECORDS ...]               the clock's low 48 bits; above them twice an event's number, plus one at its end
//
// Events are numbered from 1 (Schedule.trace). A step has a beginning only: it ends where the next begins, or its loop ends.
#ifndef KILN_PLAN_TRACE_H
#define KILN_PLAN_TRACE_H

enum {
    TRACE_CTAS = 4,
    TRACE_WARPS = 32,   // of a CTA
    TRACE_WORDS = 2048, // of a track
    TRACE_BYTES = (1 + TRACE_CTAS * TRACE_WARPS) * TRACE_WORDS * 8,
    TRACE_CLOCK_BITS = 48,
    TRACE_EVENTS_MAX = (1 << (64 - TRACE_CLOCK_BITS - 1)) - 1,
};
enum { TRACE_BEGIN_NS, TRACE_BEGIN, TRACE_END_NS, TRACE_END, TRACE_LOST, TRACE_RECORDS };

#endif
