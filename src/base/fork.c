// SPDX-License-Identifier: MIT
// fork.c - the gate that forks wait at, and turns that a child forgets.
#define _GNU_SOURCE                  // a lock that prefers writers
#include "base/fork.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

// Sections hold it for reading, a fork for writing. A fork must not starve among many short sections.
static pthread_rwlock_t gate;
static pthread_once_t   once = PTHREAD_ONCE_INIT;
static _Thread_local int depth;      // of this thread's sections: only the outermost takes the gate

static pthread_mutex_t turns_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  turn_ended = PTHREAD_COND_INITIALIZER;
static Turn           *turns;        // taken now

static void make_gate(void)
{
    pthread_rwlockattr_t kind;
    pthread_rwlockattr_init(&kind);
    pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&gate, &kind);
    pthread_rwlockattr_destroy(&kind);
}

static void before_fork(void)
{
    pthread_rwlock_wrlock(&gate);
    pthread_mutex_lock(&turns_lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&turns_lock);
    pthread_rwlock_unlock(&gate);
}

// Who held or waited for a turn is not here any more.
static void in_child(void)
{
    turns = NULL;
    pthread_cond_init(&turn_ended, NULL);
    pthread_mutex_unlock(&turns_lock);
    make_gate();
}

static void prepare(void)
{
    make_gate();
    pthread_atfork(before_fork, in_parent, in_child);
}

void fork_hold(void)
{
    pthread_once(&once, prepare);
    if (depth++ == 0)
        pthread_rwlock_rdlock(&gate);
}

void fork_release(void)
{
    if (--depth == 0)
        pthread_rwlock_unlock(&gate);
}

static bool is_taken(const char *name)
{
    for (const Turn *t = turns; t; t = t->next)
        if (strcmp(t->name, name) == 0)
            return true;
    return false;
}

void turn_take(Turn *turn, const char *name)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&turns_lock);
    while (is_taken(name))
        pthread_cond_wait(&turn_ended, &turns_lock);
    *turn = (Turn){ name, turns };
    turns = turn;
    pthread_mutex_unlock(&turns_lock);
}

void turn_end(Turn *turn)
{
    pthread_mutex_lock(&turns_lock);
    Turn **link = &turns;
    while (*link && *link != turn)
        link = &(*link)->next;
    if (*link)                       // not so in a child that was forked inside the turn
        *link = turn->next;
    pthread_cond_broadcast(&turn_ended);
    pthread_mutex_unlock(&turns_lock);
}
