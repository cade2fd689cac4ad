// SPDX-License-Identifier: MIT
// fibers.cpp - CUDA threads as fibers: switching, the order they run in, deadlocks, and faults.
//
// A cluster's threads are resumed one by one, in an order that comes from KILN_EMULATOR_SEED. Each cluster draws its own
// manner from it: any warp or one warp as far as it goes, and how hastily asynchronous operations take effect. When no
// thread can go on, one operation takes effect; when there is none, threads that poll look again; when that changes
// nothing, they are deadlocked.
#include "emulator.h"

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace emu {

enum { FRUITLESS_LOOKS = 5000 }; // an atomic that changes nothing counts: a kernel may take some hundreds of them
enum { STAGGER = 9 * 64 };                                 // bytes: threads' stacks would lie in the same few sets of the caches

__thread Worker *worker;

// What the workers of a launch share.
struct Run {
    const Launch *launch;
    unsigned n_clusters;
    std::atomic<unsigned> next_cluster{ 0 };
    std::atomic<int>      error{ 0 };
    std::atomic<uint64_t> progress{ 0 };
    std::atomic<int>      working{ 0 };                    // workers that may still change something
};
static __thread Run *run;
static std::mutex report_lock;

uint64_t Random::next()                                    // splitmix64
{
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

unsigned setting(const char *name, unsigned otherwise)
{
    const char *const text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, nullptr, 10) : otherwise;
}

// ---- switching stacks

#ifdef __x86_64__
extern "C" void emu_switch(void **save, void *to);
asm(R"(
    .text
    .globl emu_switch
    .hidden emu_switch
    .type emu_switch, @function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emu_switch, .-emu_switch
)");

static void *first_frame(void *stack, size_t unused, void (*start)())
{
    void **top = (void **)((char *)stack + STACK_BYTES - unused);
    *--top = nullptr;                                      // the return address of `start`: there is none
    *--top = (void *)start;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    return top;
}
static void switch_stacks(void **save, void *to) { emu_switch(save, to); }
#else
#include <ucontext.h>
// A context lies at the foot of its stack, above the page; a worker's is made on demand.
static void *first_frame(void *stack, size_t unused, void (*start)())
{
    ucontext_t *const context = (ucontext_t *)((char *)stack + PAGE);
    getcontext(context);
    context->uc_stack.ss_sp = context + 1;
    context->uc_stack.ss_size = STACK_BYTES - PAGE - unused - sizeof *context;
    makecontext(context, start, 0);
    return context;
}
static void switch_stacks(void **save, void *to)
{
    static thread_local ucontext_t of_worker;
    if (!*save)
        *save = &of_worker;
    swapcontext((ucontext_t *)*save, (ucontext_t *)to);
}
#endif

static void *new_stack(Worker *w)
{
    if (!w->free_stacks.empty()) {
        void *const stack = w->free_stacks.back();
        w->free_stacks.pop_back();
        return stack;
    }
    char *const memory = (char *)mmap(nullptr, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "emulated device: no memory for a thread's stack\n");
        abort();
    }
    char *const stack = (char *)(((uintptr_t)memory + STACK_BYTES - 1) & -(uintptr_t)STACK_BYTES);
    mprotect(stack, PAGE, PROT_NONE);
    return stack;
}

// ---- blocking and waking

static void switch_to_worker(Fiber *f)
{
    settle_doubt();
    switch_stacks(&f->stack_pointer, worker->stack_pointer);
}

void note_progress() { run->progress.fetch_add(1, std::memory_order_relaxed); }

void block_self(const char *what, uint32_t address, uint32_t value)
{
    Fiber *const f = self();
    f->state = BLOCKED;
    f->wait = { what, address, value };
    f->warp->runnable &= ~(1u << f->lane);
    f->spins = 0;
    switch_to_worker(f);
}

void wake(Fiber *f)
{
    f->state = RUNNABLE;
    f->warp->runnable |= 1u << f->lane;
    note_progress();
}

void wake_all(std::vector<Fiber *> &fibers)
{
    for (Fiber *f : fibers)
        wake(f);
    fibers.clear();
}

void yield_self() { switch_to_worker(self()); }

void poll_self(const char *what, uint32_t address, uint32_t value)
{
    Fiber *const f = self();
    f->state = POLLING;
    f->wait = { what, address, value };
    f->warp->runnable &= ~(1u << f->lane);
    switch_to_worker(f);
}

// Kernels that read memory now and then need not stop for it; those that read it again and again wait for others.
void spin_self(const char *what)
{
    enum { FREE_LOOKS = 16 };
    if (++self()->spins > FREE_LOOKS)
        poll_self(what, 0, 0);
}

void start_async(Block *block, std::function<void()> take_effect)
{
    block->pending++;
    worker->pending.push_back({ block, std::move(take_effect) });
}

static void take_one_effect(Worker *w)
{
    const size_t i = w->random.below((unsigned)w->pending.size());
    std::swap(w->pending[i], w->pending.back());
    const Async a = std::move(w->pending.back());
    w->pending.pop_back();
    a.block->pending--;
    a.take_effect();
    note_progress();
}

// ---- faults

static thread_local sigjmp_buf to_scheduler;

static std::string where(const Fiber *f)
{
    char text[200];
    if (!f)
        return "an asynchronous copy";
    const Block *const b = f->block;
    snprintf(text, sizeof text, "block %u, thread %u (warp %u)", b->index.x, f->number, f->number / WARP);
    return text;
}

static void report(const char *what)
{
    std::lock_guard<std::mutex> hold(report_lock);
    fprintf(stderr, "emulated device: %s: %s\n", run->launch->name.c_str(), what);
}

static void end_launch(int error)
{
    int none = 0;
    run->error.compare_exchange_strong(none, error);
}

void fault(int error, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    const int n = snprintf(text, sizeof text, "%s: ", where(worker->running).c_str());
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    if (!run->error)
        report(text);
    end_launch(error);
    siglongjmp(to_scheduler, 1);
}

static struct sigaction before_segv, before_bus, before_fpe;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    if (worker) {
        char text[300];
        const uintptr_t address = (uintptr_t)info->si_addr;
        sigset_t set;
        if (signal == SIGFPE)
            snprintf(text, sizeof text, "%s: an integer is divided by 0", where(worker->running).c_str());
        else
            snprintf(text, sizeof text, "%s: access to %#zx, which is no memory of the device (or its stack ran over)",
                     where(worker->running).c_str(), (size_t)address);
        report(text);
        end_launch(ILLEGAL_ADDRESS);
        sigemptyset(&set);
        sigaddset(&set, signal);
        pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
        siglongjmp(to_scheduler, 1);
    }
    const struct sigaction *const before = signal == SIGSEGV ? &before_segv : signal == SIGBUS ? &before_bus : &before_fpe;
    sigaction(signal, before, nullptr);                    // not ours: it happens again, and others see it
}

// Faults must be handled on another stack than a fiber's, which may be what ran over.
static void use_signal_stack()
{
    static thread_local std::unique_ptr<char[]> stack;
    enum { BYTES = 64 * 1024 };
    if (stack)
        return;
    stack.reset(new char[BYTES]);
    stack_t alternative = {};
    alternative.ss_sp = stack.get();
    alternative.ss_size = BYTES;
    sigaltstack(&alternative, nullptr);
}

// While a launch runs; before and after it, signals are the program's own.
static void catch_signals()
{
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
    sigaction(SIGFPE, &action, &before_fpe);
}

static void leave_signals()
{
    sigaction(SIGSEGV, &before_segv, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    sigaction(SIGFPE, &before_fpe, nullptr);
}

// ---- deadlocks

static std::string ranges(const std::vector<unsigned> &numbers)
{
    std::string text;
    for (size_t i = 0; i < numbers.size(); ) {
        size_t j = i;
        while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1)
            j++;
        text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
        if (j > i)
            text += "-" + std::to_string(numbers[j]);
        i = j + 1;
    }
    return text;
}

static void describe_waits(const Block *b, std::string *text)
{
    std::map<std::string, std::vector<unsigned>> waits;
    for (const auto &w : b->warps)
        for (const Fiber *f : w->fibers) {
            if (f->state == FINISHED)
                continue;
            char line[200];
            snprintf(line, sizeof line, f->wait.address || f->wait.value ? "%s (%#x, %#x)" : "%s", f->wait.what, f->wait.address,
                     f->wait.value);
            waits[line].push_back(f->number);
        }
    for (const auto &one : waits)
        *text += "\n    block " + std::to_string(b->index.x) + ", threads " + ranges(one.second) + " wait for " + one.first;
    for (const auto &bar : b->mbarriers) {
        char line[200];
        snprintf(line, sizeof line, "\n    block %u, mbarrier %#x: phase %u (parity %u), %u of %u arrivals and %lld bytes are missing",
                 b->index.x, bar.first, bar.second.phase, bar.second.phase & 1, bar.second.pending, bar.second.expected,
                 (long long)bar.second.bytes);
        *text += line;
    }
    for (int i = 0; i < NAMED_BARRIERS; i++)
        if (b->named[i].arrived)
            *text += "\n    block " + std::to_string(b->index.x) + ", barrier " + std::to_string(i) + ": "
                   + std::to_string(b->named[i].arrived) + " of " + std::to_string(b->named[i].expected) + " threads have come";
}

static void report_deadlock(const Cluster *c)
{
    std::string text = "deadlock: nothing can go on";
    for (const auto &b : c->blocks)
        if (b->alive)
            describe_waits(b.get(), &text);
    if (!run->error)
        report(text.c_str());
    end_launch(LAUNCH_FAILED);
}

// ---- clusters

static void fiber_main()
{
    Fiber *const f = self();
    void *params[64];
    int n = 0;
    for (const auto &p : worker->launch->params)
        params[n++] = p.get();
    worker->launch->kernel->call(params);
    if (worker->launch->early && !f->waited)
        fault(LAUNCH_FAILED, "thread %u of an early launch has not waited for the launches before it", f->number);
    f->state = FINISHED;
    copies_at_exit(f);
    products_at_exit(f);
    f->warp->runnable &= ~(1u << f->lane);
    f->warp->alive &= ~(1u << f->lane);
    f->block->alive--;
    f->block->cluster->alive--;
    note_progress();
    thread_left_meetings(f);
    thread_left_barriers(f);
    if (!f->block->alive)
        check_end(f->block);
    switch_to_worker(f);
    abort();
}

// Params are handed over as pointers; each cluster's threads see the launch's own copy.
static void start_block(Worker *w, Cluster *c, unsigned rank)
{
    const Launch &l = *w->launch;
    auto block = std::make_unique<Block>();
    const unsigned number = c->number * l.cluster + rank;
    block->cluster = c;
    block->worker = w;
    block->rank = rank;
    block->index = { number % l.grid.x, number / l.grid.x % l.grid.y, number / (l.grid.x * l.grid.y) };
    block->threads = block->alive = l.block.x * l.block.y * l.block.z;
    block->shared_bytes = l.shared_bytes;
    block->shared = new_shared(w, l.shared_bytes);
    const unsigned warps = (block->threads + WARP - 1) / WARP;
    c->alive += block->threads;
    c->warps = (int)(warps * l.cluster);
    for (unsigned t = 0; t < block->threads; t++) {
        if (t % WARP == 0) {
            block->warps.push_back(std::make_unique<Warp>());
            block->warps.back()->block = block.get();
            block->warps.back()->number = (int)(t / WARP);
            block->warps.back()->agent = (int)(rank * warps + t / WARP);
            block->warps.back()->priority = (unsigned)w->random.next();
        }
        Warp *const warp = block->warps.back().get();
        void *const stack = new_stack(w);
        Fiber *const f = new Fiber;
        f->warp = warp;
        f->block = block.get();
        f->lane = (int)(t % WARP);
        f->number = t;
        f->thread = { t % l.block.x, t / l.block.x % l.block.y, t / (l.block.x * l.block.y) };
        f->stack_base = stack;
        f->stack_pointer = first_frame(stack, t % 64 * STAGGER, fiber_main);
        warp->fibers.push_back(f);
        warp->runnable |= 1u << f->lane;
        warp->alive |= 1u << f->lane;
    }
    watch_block(w, block.get());
    c->blocks.push_back(std::move(block));
}

static void start_cluster(Worker *w, unsigned number)
{
    auto c = std::make_unique<Cluster>();
    c->worker = w;
    c->number = number;
    w->random.state = (uint64_t)setting("KILN_EMULATOR_SEED", 0) << 40 ^ (uint64_t)w->launch->index << 24 ^ number;
    static const unsigned hastes[] = { 0, 0, 4, 64, 256 };
    w->haste = hastes[w->random.below(5)];
    w->by_priority = w->random.below(2);
    for (unsigned rank = 0; rank < w->launch->cluster; rank++)
        start_block(w, c.get(), rank);
    w->clusters.push_back(std::move(c));
}

static void drop_cluster(Worker *w, Cluster *c)
{
    for (const auto &b : c->blocks) {
        for (const auto &warp : b->warps)
            for (Fiber *f : warp->fibers) {
                w->free_stacks.push_back(f->stack_base);
                delete f;
            }
        leave_block(w, b.get());
        free_shared(w, b->shared, b->shared_bytes);
    }
    for (size_t i = 0; i < w->clusters.size(); i++)
        if (w->clusters[i].get() == c) {
            w->clusters.erase(w->clusters.begin() + (long)i);
            return;
        }
}

static void end_block(Worker *w, Block *b)
{
    finish_stores(w, b);
    for (uint32_t i = 0; i < 64; i++)                      // the rest of the last line is a guard
        if (b->shared[b->shared_bytes + i] != 0xa5)
            fault(LAUNCH_FAILED, "block %u has written past its %u bytes of shared memory", b->index.x, b->shared_bytes);
}

// ---- the scheduler

static Warp *choose_warp(Worker *w)
{
    Warp *best = nullptr;
    size_t n = 0;
    for (const auto &c : w->clusters)
        for (const auto &b : c->blocks)
            n += b->warps.size();
    size_t skip = w->by_priority ? 0 : w->random.below((unsigned)n);
    for (int round = 0; round < 2 && !best; round++)
        for (const auto &c : w->clusters)
            for (const auto &b : c->blocks)
                for (const auto &warp : b->warps) {
                    if (skip > 0 && skip--)
                        continue;
                    if (!warp->runnable)
                        continue;
                    if (!w->by_priority)
                        return warp.get();
                    if (!best || warp->priority > best->priority)
                        best = warp.get();
                }
    return best;
}

static Fiber *choose_fiber(Worker *w)
{
    Warp *const warp = w->clusters.empty() ? nullptr : choose_warp(w);
    if (!warp)
        return nullptr;
    const unsigned turn = w->random.below(WARP);
    const uint32_t turned = warp->runnable >> turn | (turn ? warp->runnable << (WARP - turn) : 0);
    return warp->fibers[((unsigned)__builtin_ctz(turned) + turn) % WARP];
}

static bool start_next(Worker *w)
{
    const unsigned next = run->next_cluster.fetch_add(1);
    if (next >= run->n_clusters)
        return false;
    start_cluster(w, next);
    return true;
}

// Wakes what polls. 0: nothing does; 1: something waits inside its cluster; 2: something waits for memory.
static int wake_pollers(Worker *w)
{
    int found = 0;
    for (const auto &c : w->clusters)
        for (const auto &b : c->blocks)
            for (const auto &warp : b->warps)
                for (Fiber *f : warp->fibers)
                    if (f->state == POLLING) {
                        f->state = RUNNABLE;
                        warp->runnable |= 1u << f->lane;
                        found = f->spins ? 2 : found ? found : 1;
                    }
    return found;
}

static const Cluster *stuck_cluster(const Worker *w)
{
    for (const auto &c : w->clusters) {
        bool polls = false;
        for (const auto &b : c->blocks)
            for (const auto &warp : b->warps)
                for (const Fiber *f : warp->fibers)
                    polls = polls || f->state == POLLING;
        if (c->alive && !polls)
            return c.get();
    }
    return nullptr;
}

static void retire_finished(Worker *w)
{
    for (size_t i = w->clusters.size(); i-- > 0; ) {
        Cluster *const c = w->clusters[i].get();
        if (c->alive)
            continue;
        for (const auto &b : c->blocks)
            end_block(w, b.get());
        drop_cluster(w, c);
    }
}

// Nothing is runnable: whatever may change that.
static void when_idle(Worker *w, uint64_t *seen, int *fruitless)
{
    if (!w->pending.empty()) {
        take_one_effect(w);
        return;
    }
    const Cluster *const stuck = stuck_cluster(w);
    if (stuck) {
        report_deadlock(stuck);
        return;
    }
    const int polls = wake_pollers(w);
    if (polls == 2 && start_next(w))
        return;
    const uint64_t now = run->progress;
    if (now != *seen) {
        *seen = now;
        *fruitless = 0;
        return;
    }
    if (++*fruitless < FRUITLESS_LOOKS)
        return;
    if (polls == 2 && run->working > 1) {                  // others may be at work, or be stuck as well
        run->working--;
        for (int i = 0; i < 4000 && run->progress == now && run->working > 0 && !run->error; i++)
            usleep(500);
        const bool changed = run->progress != now;
        run->working++;
        if (changed || run->error)
            return;
    }
    report_deadlock(w->clusters[0].get());
}

static void schedule(Worker *w)
{
    uint64_t seen = 0;
    int fruitless = 0;
    while (!run->error) {
        if (w->haste && !w->pending.empty() && w->random.below(256) < w->haste)
            take_one_effect(w);
        if (w->haste && !w->stores.empty() && w->random.below(256) < w->haste)
            advance_a_store(w);
        Fiber *const f = choose_fiber(w);
        if (f) {
            w->running = f;
            switch_stacks(&w->stack_pointer, f->stack_pointer);
            w->running = nullptr;
            if (f->state == FINISHED)
                retire_finished(w);
        } else if (!w->clusters.empty()) {
            when_idle(w, &seen, &fruitless);
        } else if (!start_next(w)) {
            return;
        }
    }
}

static void work(Worker *w, Run *r)
{
    worker = w;
    run = r;
    w->launch = r->launch;
    use_signal_stack();
    if (sigsetjmp(to_scheduler, 0) == 0)
        schedule(w);
    w->running = nullptr;                                  // after a fault, its thread and all others are given up
    while (!w->clusters.empty())
        drop_cluster(w, w->clusters.back().get());
    w->pending.clear();
    w->doubt = {};
    w->together = false;
    w->stores.clear();
    r->working--;
    worker = nullptr;
    run = nullptr;
}

int run_launch(const Launch &launch)
{
    static std::vector<std::unique_ptr<Worker>> workers;
    Run r;
    r.launch = &launch;
    r.n_clusters = launch.grid.x * launch.grid.y * launch.grid.z / launch.cluster;
    const unsigned most = setting("KILN_EMULATOR_THREADS", std::max(1u, std::thread::hardware_concurrency()));
    const unsigned n = std::max(1u, std::min(most, r.n_clusters));
    while (workers.size() < n)
        workers.push_back(std::make_unique<Worker>());
    r.working = (int)n;
    std::vector<std::thread> others;
    catch_signals();
    for (unsigned i = 1; i < n; i++)
        others.emplace_back(work, workers[i].get(), &r);
    work(workers[0].get(), &r);
    for (std::thread &t : others)
        t.join();
    leave_signals();
    if (!r.error) {
        const std::string guards = check_guards();
        if (!guards.empty()) {
            fprintf(stderr, "emulated device: %s: %s\n", launch.name.c_str(), guards.c_str());
            return ILLEGAL_ADDRESS;
        }
    }
    return r.error;
}

}
