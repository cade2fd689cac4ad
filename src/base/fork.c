// SPDX-License-Identifier: MIT
// fork.c - sections that forks wait for, and turns that a child forgets.
#include "base/fork.h"

#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of all that follows; a fork holds it
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int inside;   // threads in short sections
static bool forking; // a fork waits for them: no other thread goes in
static Turn *turns;  // taken now

static _Thread_local int depth; // of this thread's sections: only the outermost counts

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    while (forking) // another thread's
        pthread_cond_wait(&changed, &lock);
    forking = true;
    while (inside > 0) pthread_cond_wait(&changed, &lock);
}

static void in_parent(void)
{
    forking = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

// Who waited, or held a turn, is not here any more.
static void in_child(void)
{
    forking = false;
    turns = NULL;
    pthread_cond_init(&changed, NULL);
    pthread_mutex_unlock(&lock);
}

// When the library is loaded: a fork that has begun runs no handler that is registered later.
__attribute__((constructor)) static void prepare(void) { pthread_atfork(before_fork, in_parent, in_child); }

void fork_hold(void)
{
    if (depth++ > 0) return;
    pthread_mutex_lock(&lock);
    while (forking) pthread_cond_wait(&changed, &lock);
    inside++;
    pthread_mutex_unlock(&lock);
}

void fork_release(void)
{
    if (--depth > 0) return;
    pthread_mutex_lock(&lock);
    if (--inside == 0 && forking) pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool is_taken(const char *name)
{
    for (const Turn *t = turns; t; t = t->next)
        if (strcmp(t->name, name) == 0) return true;
    return false;
}

void turn_take(Turn *turn, const char *name)
{
    pthread_mutex_lock(&lock);
    while (is_taken(name)) pthread_cond_wait(&changed, &lock);
    *turn = (Turn){ name, turns };
    turns = turn;
    pthread_mutex_unlock(&lock);
}

void turn_end(Turn *turn)
{
    pthread_mutex_lock(&lock);
    Turn **link = &turns;
    while (*link != turn) link = &(*link)->next;
    *link = turn->next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

bool fork_try_lock(pthread_mutex_t *mutex)
{
    enum { TRIES = 100 }; // of some 20 ns; what such a lock guards takes less
    for (int i = 0; i < TRIES; i++)
        if (pthread_mutex_trylock(mutex) == 0) return true;
    return false;
}
