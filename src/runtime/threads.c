// SPDX-License-Identifier: MIT
// threads.c - the thread pool that CPU kernels run on.
//
// A pool of our own and not OpenMP's: the library is called from hosts that bring another OpenMP runtime or none,
// that fork, and that launch from several threads of theirs at once; libgomp starts a team per launching thread,
// does not survive a fork, and cannot be seen into by ThreadSanitizer. What a launch needs is small: many
// independent pieces handed out one by one.
//
// A launch is a Job on the caller's stack. It stands in a list while it has pieces left; idle threads take pieces
// from the first job of the list. The caller works on its own job until no piece is left and then waits only for
// threads inside its pieces, so jobs started from inside a piece cannot wait for each other in a circle.
#define _GNU_SOURCE // sched_getaffinity
#include "runtime/runtime.h"
#include "base/memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, PIECES_PER_THREAD = 16, SPINS = 2000 };

typedef struct Job Job;
struct Job {
    ThreadsTask *task;
    void *context;
    int64_t count, piece;
    _Atomic int64_t next; // the first index not handed out
    int inside;           // pool threads at work on it (under the lock)
    Job *following;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    Job *jobs;
    _Atomic int n_jobs;  // what spinning threads look at
    int started, wanted; // pool threads; wanted -1: not asked yet
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER, .wanted = -1
};

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

static bool run_piece(Job *job)
{
    const int64_t first = atomic_fetch_add(&job->next, job->piece);
    if (first >= job->count) return false;
    const int64_t left = job->count - first;
    job->task(job->context, first, first + (left < job->piece ? left : job->piece));
    return true;
}

static void leave_list(Job *job)
{
    for (Job **link = &pool.jobs; *link; link = &(*link)->following)
        if (*link == job) {
            *link = job->following;
            atomic_fetch_sub(&pool.n_jobs, 1);
            return;
        }
}

// A launch often follows the last one within microseconds, which waking a thread would not be in time for.
static void spin_for_work(void)
{
    for (int i = 0; i < SPINS && atomic_load_explicit(&pool.n_jobs, memory_order_relaxed) == 0; i++) relax();
}

static void *worker(void *index)
{
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        if (!pool.jobs) {
            pthread_mutex_unlock(&pool.lock);
            spin_for_work();
            pthread_mutex_lock(&pool.lock);
        }
        // A thread past the wanted number stays asleep: fewer threads are a matter of who works, not of who is there.
        while (!pool.jobs || (int)(intptr_t)index >= pool.wanted) pthread_cond_wait(&pool.work, &pool.lock);
        Job *const job = pool.jobs;
        job->inside++;
        pthread_mutex_unlock(&pool.lock);
        while (run_piece(job)) {
        }
        pthread_mutex_lock(&pool.lock);
        leave_list(job);
        if (--job->inside == 0) pthread_cond_broadcast(&pool.done);
    }
    return NULL;
}

// In a child made by fork only the calling thread lives on. Nothing is left as it was found, so the fork need not wait for
// the lock; if it held that, it would wait for the sections of base/fork.h, and they for the lock. Registered when the library
// is loaded: a fork that has begun runs no handler that is registered later, and could leave the child a lock that is taken.
static void start_anew(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.jobs = NULL;
    atomic_store(&pool.n_jobs, 0);
    pool.started = 0;
}

__attribute__((constructor)) static void prepare_for_forks(void) { pthread_atfork(NULL, NULL, start_anew); }

static void lock_pool(void) { pthread_mutex_lock(&pool.lock); }
static void unlock_pool(void) { pthread_mutex_unlock(&pool.lock); }

// Under the lock. The pool's threads are the wanted number less one: the caller works too.
static void start_threads(void)
{
    if (pool.wanted < 0) pool.wanted = default_threads() - 1;
    for (; pool.started < pool.wanted; pool.started++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker, (void *)(intptr_t)pool.started) != 0)
            return; // fewer threads are slower, not wrong
        pthread_detach(thread);
    }
}

void kiln_set_threads(int threads)
{
    lock_pool();
    pool.wanted = (threads < 1 ? default_threads() : threads > MAX_THREADS ? MAX_THREADS : threads) - 1;
    start_threads();
    unlock_pool();
}

int threads_count(void)
{
    lock_pool();
    start_threads();
    const int n = pool.wanted + 1;
    unlock_pool();
    return n;
}

void threads_run(int64_t n, ThreadsTask *task, void *context)
{
    Job job = { .task = task, .context = context, .count = n, .piece = n };
    if (n <= 1) {
        if (n == 1) task(context, 0, 1);
        return;
    }
    lock_pool();
    start_threads();
    const int threads = pool.wanted + 1;
    job.piece = n / ((int64_t)threads * PIECES_PER_THREAD);
    job.piece += job.piece == 0;
    if (threads > 1) {
        Job **last = &pool.jobs;
        while (*last) last = &(*last)->following;
        *last = &job;
        atomic_fetch_add(&pool.n_jobs, 1);
        pthread_cond_broadcast(&pool.work);
    }
    unlock_pool();
    while (run_piece(&job)) {
    }
    if (threads == 1) return;
    lock_pool();
    leave_list(&job);
    while (job.inside) pthread_cond_wait(&pool.done, &pool.lock);
    unlock_pool();
}
