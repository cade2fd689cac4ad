// SPDX-License-Identifier: MIT
// fork.h - what lets a process fork in one thread while others are inside the library.
//
// A child has the memory of its parent and one thread, the one that forked. A lock that another thread held is then
// held for ever, and what it guarded may be half changed. So there are two kinds of exclusive sections:
//
//   short ones (lists, the front end, loading)   between fork_hold and fork_release: a fork waits until none is under way
//   long ones (a compiler runs)                  turns: a fork does not wait, and the child starts with all of them free
#ifndef KILN_BASE_FORK_H
#define KILN_BASE_FORK_H

#include <pthread.h>
#include <stdbool.h>

// May be nested, and be taken while a lock is held only if that lock is always taken inside such a section.
void fork_hold(void);
void fork_release(void);

// Between these no other thread of this process is in a turn of the same name: who waits finds what was done meanwhile.
typedef struct Turn {
    const char *name;
    struct Turn *next;
} Turn;
void turn_take(Turn *turn, const char *name);
void turn_end(Turn *turn);

// Takes a lock that is only ever held for a moment. False: it was held all the time, perhaps for ever, by a thread that the
// process was forked beside.
bool fork_try_lock(pthread_mutex_t *mutex);

#endif
