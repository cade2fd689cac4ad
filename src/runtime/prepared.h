// SPDX-License-Identifier: MIT
// prepared.h - launches that were checked before: the same call, the same arguments but for their addresses.
//
// What launch_prepare finds out depends on types, shapes, strides and scalars, and on addresses in three ways alone:
// none may be null where there are elements, each is aligned, and what is written overlaps nothing else. A kernel keeps
// its last launches, and an operator's handle its last calls (ops/known.h). One that agrees in all but addresses is looked
// at for these three and runs with the words that are kept, its addresses put in. What does not agree goes the long way,
// which words the messages as well.
#ifndef KILN_RUNTIME_PREPARED_H
#define KILN_RUNTIME_PREPARED_H

#include "runtime/runtime.h"

#include <stdatomic.h>

// Launches it, if it agrees with a kept one; false: it takes the long way.
bool prepared_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                     size_t workspace_bytes, kiln_status *status);
// The bytes of its workspace, if a call that agrees has asked or run before, and the arguments' addresses are such that it
// would be answered the long way.
bool prepared_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes);
// The same of arguments that are shapes alone: no address is looked at.
bool prepared_size_of_shapes(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes);
void prepared_free(struct PreparedCache *cache);

// ---- what the long way leaves

enum { PLACES_MOST = PLAN_MAX_PARAMS + 8, RECORDED_WORDS = 4096, WORKSPACE_ALIGNMENT = 256 };

// Memory that launches take: a tensor of the call, its workspace, or what the call always takes at the same address.
typedef struct Place {
    bool is_empty, is_written;
    int same_as; // an earlier one with the same address, which it must have again; -1: none
    int alignment;
    intptr_t low, high; // the bytes that it reaches, from its address
} Place;

// The places of a call, those whose addresses it gives first, and its launches: of each a head, its words, what is computed
// beside them, and which word is the address of which place.
typedef struct Recording {
    bool failed; // it has more than there is room for, or memory of which nobody says whose it is
    int n_given, n_places, n_steps, n_words;
    size_t bytes; // of the workspace that the launches need
    uintptr_t at[PLACES_MOST];
    const kiln_tensor *tensors[PLACES_MOST]; // NULL: it is none
    Place places[PLACES_MOST];
    int64_t words[RECORDED_WORDS];
} Recording;

void recording_begin(Recording *r);
void recording_of_args(Recording *r, const Launch *outer, int n_args); // its tensors, and what it demands of them
void recording_give(Recording *r, const kiln_tensor *tensor);
void recording_give_workspace(Recording *r, const void *memory, size_t bytes);
// That a tensor, one of the places or a part of one, is aligned, and is written. `fixed`: it may be none of them, and then is a place
// that stays where it is.
void recording_demand(Recording *r, const kiln_tensor *tensor, int alignment, bool is_written, bool fixed);
// The launches to come need a workspace of so many bytes, this one.
void recording_need(Recording *r, const void *workspace, size_t bytes);
void recording_step(Recording *r, kiln_kernel *kernel, const Launch *launch);

// Keeps what was recorded of a call with these arguments; `ran` false: it holds the workspace's size alone.
void prepared_keep(kiln_kernel *kernel, const Recording *r, const kiln_arg *args, int n_args, bool ran);

// A recording that is kept. It is not changed, so that any number of threads run it.
typedef struct Prepared Prepared;

Prepared *prepared_of(const Recording *r); // with one use; NULL: it failed, or there is no memory
void prepared_use(Prepared *p);
void prepared_end_use(Prepared *p);
size_t prepared_bytes(const Prepared *p);
// Runs it at the addresses of what the call gives, in the order of the recording, `at` having room for PLACES_MOST. False: they do
// not fit, and nothing is queued.
bool prepared_run(const Prepared *p, kiln_stream *stream, uintptr_t *at, kiln_status *status);

// ---- launches that are recorded (launch.c)

// As kiln_launch_with, the long way, into the recording of a call that has begun.
kiln_status launch_recorded(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                            size_t workspace_bytes, Recording *r);

#endif
