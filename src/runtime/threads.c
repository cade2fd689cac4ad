// SPDX-License-Identifier: MIT
// threads.c - the thread pool that CPU kernels run on.
//
// A pool of our own and not OpenMP's: the library is called from hosts that bring another OpenMP runtime or none,
// that fork, and that launch from several threads of theirs at once; libgomp starts a team per launching thread,
// does not survive a fork, and cannot be seen into by ThreadSanitizer. What a launch needs is small: many
// independent pieces handed out one by one.
//
// A launch is a Job, one of a fixed number. While it has pieces left it is open, and idle threads take pieces of the first open
// one. The caller works on its own job until no piece is left and then waits only for threads inside its pieces, so jobs started
// from inside a piece cannot wait for each other in a circle; where all jobs are in use it works alone.
//
// No lock is taken between a launch and its end: threads that are all woken at once would wait for it one after another. A
// thread counts itself inside before it looks whether the job is open, and a caller closes it before it looks who is inside.
#define _GNU_SOURCE // sched_getaffinity, sched_getcpu
#include "runtime/runtime.h"
#include "base/memory.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, PIECES_PER_THREAD = 16, JOBS = 32, PAUSES = 16, SPIN_NS = 100000, WAKES = 8 };

typedef struct Job {
    alignas(64) atomic_int is_taken; // by a caller
    atomic_int is_open;              // has pieces left
    atomic_int inside;               // pool threads that look at it or work on it; callers sleep on it
    atomic_int is_awaited;           // the caller may sleep
    atomic_int wakes;                // threads that may still be woken for it
    ThreadsTask *task;
    void *context;
    int64_t count, piece;
    alignas(64) _Atomic int64_t next; // the first index not handed out
} Job;

static struct {
    Job jobs[JOBS];
    alignas(64) atomic_int posted; // jobs so far; idle threads sleep on it
    atomic_int caller_processor;   // where the last job was posted
    atomic_int asleep;
    atomic_int wanted; // pool threads that work; -1: not asked yet. Those past it sleep on it
    atomic_int started;
    pthread_mutex_t lock; // of starting threads
} pool = { .wanted = -1, .lock = PTHREAD_MUTEX_INITIALIZER };

// ---- scratch

typedef struct Scratch {
    void *memory;
    size_t bytes;
} Scratch;

static _Thread_local Scratch scratch;
static pthread_key_t scratch_key;

static void make_scratch_key(void) { pthread_key_create(&scratch_key, memory_free); }

void *threads_scratch(size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (bytes > scratch.bytes) {
        pthread_once(&once, make_scratch_key);
        memory_free(scratch.memory);
        scratch.memory = memory_alloc(bytes + 64);
        scratch.bytes = scratch.memory ? bytes : 0;
        pthread_setspecific(scratch_key, scratch.memory);
    }
    return scratch.memory ? (void *)(((uintptr_t)scratch.memory + 63) & ~(uintptr_t)63) : NULL;
}

// ---- the pool

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int processors(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

static int default_threads(void)
{
    const char *const text = secure_getenv("KILN_THREADS");
    const long n = text ? strtol(text, NULL, 10) : 0;
    return n < 1 ? processors() : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

static void futex_wait(atomic_int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(atomic_int *word, int n) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0); }

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Looks for some time whether the word is no longer (or `until`: is) the value: who slept would be late for what comes soon.
static void spin(atomic_int *word, int value, bool until)
{
    const int64_t begin = now_ns();
    for (int64_t passed = 0; passed < SPIN_NS; passed = now_ns() - begin) {
        for (int i = 0; i < PAUSES; i++) {
            if ((atomic_load_explicit(word, memory_order_relaxed) == value) == until) return;
            relax();
        }
    }
}

static bool run_piece(Job *job)
{
    const int64_t first = atomic_fetch_add(&job->next, job->piece);
    if (first >= job->count) return false;
    const int64_t left = job->count - first;
    job->task(job->context, first, first + (left < job->piece ? left : job->piece));
    return true;
}

// Waking a thread takes the waker microseconds: each wakes some, who wake others.
static void wake_some(Job *job)
{
    int n = atomic_load(&job->wakes);
    if (n <= 0 || atomic_load(&pool.asleep) == 0) return;
    n = atomic_fetch_sub(&job->wakes, WAKES);
    if (n > 0) futex_wake(&pool.posted, n < WAKES ? n : WAKES);
}

static bool work_on(Job *job)
{
    if (!atomic_load_explicit(&job->is_open, memory_order_relaxed)) return false;
    atomic_fetch_add(&job->inside, 1);
    const bool is_open = atomic_load(&job->is_open);
    if (is_open) {
        wake_some(job);
        while (run_piece(job)) {
        }
        atomic_store(&job->is_open, 0);
    }
    if (atomic_fetch_sub(&job->inside, 1) == 1 && atomic_load(&job->is_awaited)) futex_wake(&job->inside, 1);
    return is_open;
}

// A thread that was woken on the caller's processor would keep it from the caller while it looks for work: where processors are
// shared, that was 100 us of each launch after a gap. Another's processor may have a thread waiting that is inside a piece.
static void sleep_for_work(int seen)
{
    if (sched_getcpu() != atomic_load_explicit(&pool.caller_processor, memory_order_relaxed)) {
        sched_yield();
        spin(&pool.posted, seen, false);
    }
    if (atomic_load(&pool.posted) != seen) return;
    atomic_fetch_add(&pool.asleep, 1);
    futex_wait(&pool.posted, seen);
    atomic_fetch_sub(&pool.asleep, 1);
}

static void *worker(void *index)
{
    for (;;) {
        // A thread past the wanted number stays asleep: fewer threads are a matter of who works, not of who is there.
        for (int wanted; (wanted = atomic_load(&pool.wanted)) <= (int)(intptr_t)index;)
            futex_wait(&pool.wanted, wanted);
        const int seen = atomic_load(&pool.posted);
        bool any = false;
        for (int i = 0; i < JOBS; i++) any |= work_on(&pool.jobs[i]);
        if (!any) sleep_for_work(seen);
    }
    return NULL;
}

// In a child made by fork only the calling thread lives on. Nothing is left as it was found, so the fork need not wait for
// the lock; if it held that, it would wait for the sections of base/fork.h, and they for the lock. Jobs that were taken stay
// so: their callers are gone, or this thread is at work on them. Registered when the library is loaded: a fork that has begun
// runs no handler that is registered later, and could leave the child a lock that is taken.
static void start_anew(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    for (int i = 0; i < JOBS; i++) {
        atomic_store(&pool.jobs[i].is_open, 0);
        if (!atomic_load(&pool.jobs[i].is_taken)) atomic_store(&pool.jobs[i].inside, 0);
    }
    atomic_store(&pool.asleep, 0);
    atomic_store(&pool.started, 0);
}

__attribute__((constructor)) static void prepare_for_forks(void) { pthread_atfork(NULL, NULL, start_anew); }

// Under the lock. The pool's threads are the wanted number less one: the caller works too.
static void start_threads(int wanted)
{
    atomic_store(&pool.wanted, wanted);
    for (int n = atomic_load(&pool.started); n < wanted; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)(intptr_t)n) != 0)
            break; // fewer threads are slower, not wrong
        pthread_detach(thread);
        atomic_store(&pool.started, n + 1);
    }
}

void kiln_set_threads(int threads)
{
    pthread_mutex_lock(&pool.lock);
    start_threads((threads < 1 ? default_threads() : threads > MAX_THREADS ? MAX_THREADS : threads) - 1);
    pthread_mutex_unlock(&pool.lock);
    futex_wake(&pool.wanted, INT_MAX);
}

int threads_count(void)
{
    if (atomic_load(&pool.wanted) < 0 || atomic_load(&pool.started) < atomic_load(&pool.wanted)) {
        pthread_mutex_lock(&pool.lock);
        start_threads(atomic_load(&pool.wanted) < 0 ? default_threads() - 1 : atomic_load(&pool.wanted));
        pthread_mutex_unlock(&pool.lock);
    }
    return atomic_load(&pool.wanted) + 1;
}

static Job *take_job(void)
{
    for (int i = 0; i < JOBS; i++) {
        int no = 0;
        if (atomic_compare_exchange_strong(&pool.jobs[i].is_taken, &no, 1)) return &pool.jobs[i];
    }
    return NULL;
}

static void wait_for_others(Job *job)
{
    atomic_store(&job->is_open, 0);
    if (atomic_load(&job->inside)) spin(&job->inside, 0, true);
    atomic_store(&job->is_awaited, 1);
    for (int n; (n = atomic_load(&job->inside)) != 0;) futex_wait(&job->inside, n);
    atomic_store(&job->is_awaited, 0);
    atomic_store(&job->is_taken, 0);
}

void threads_run(int64_t n, ThreadsTask *task, void *context)
{
    const int threads = n > 1 ? threads_count() : 1;
    Job *const job = threads > 1 ? take_job() : NULL;
    if (!job) {
        if (n > 0) task(context, 0, n);
        return;
    }
    const int64_t piece = n / ((int64_t)threads * PIECES_PER_THREAD);
    job->task = task;
    job->context = context;
    job->count = n;
    job->piece = piece + (piece == 0);
    atomic_store(&job->next, 0);
    atomic_store(&job->wakes, (int)(n < threads ? n : threads) - 1);
    atomic_store(&job->is_open, 1);
    atomic_store_explicit(&pool.caller_processor, sched_getcpu(), memory_order_relaxed);
    atomic_fetch_add(&pool.posted, 1);
    wake_some(job);
    while (run_piece(job)) {
    }
    wait_for_others(job);
}
