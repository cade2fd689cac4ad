// SPDX-License-Identifier: MIT
// prepared.c - launches that were checked before (prepared.h).
#include "runtime/prepared.h"

#include "base/memory.h"

#include <stdatomic.h>

enum { KEPT_MOST = 8, KEY_WORDS = PLAN_MAX_PARAMS * (3 + 2 * MAX_RANK), TEMPS_MOST = 64, TEMP_ALIGNMENT = 256 };

// Where the address of an argument comes from and goes to, and what it must be.
typedef struct Address {
    int from; // the caller's argument; after those, a temporary; -1: it is no tensor
    int word; // of the launch's words
    int alignment;
    bool is_written, is_empty;
    intptr_t low, high; // the bytes that it reaches, from its address
} Address;

typedef struct KeptStep {
    struct KeptStep *next;
    kiln_kernel *kernel;
    const LaunchPlan *plan;
    int n_args, n_words;
    kiln_arg *args; // scalars as they are
    Address *addresses;
    int64_t *values; // words, symbols, scalars
    int64_t grid[PLAN_MAX_GRID], instances;
} KeptStep;

struct Kept {
    int uses; // by the cache and by launches under way; under the cache's lock
    uint64_t hash;
    int n_key, n_args, n_temps;
    bool ran;
    size_t bytes; // of the workspace
    int64_t *key;
    Address *addresses; // of the caller's arguments
    kiln_tensor *temps; // their data: offsets
    KeptStep *steps, **end;
    bool failed; // there was no memory for a part of it
};

struct PreparedCache {
    pthread_mutex_t
        lock; // only tried: who does not get it goes the long way, a forked child of a thread that had it for ever
    Kept *kept[KEPT_MOST];
    int next; // to be replaced
};

// ---- the key: all of the arguments but addresses

static int add_tensor(int64_t *key, const kiln_tensor *t)
{
    int n = 0;
    key[n++] = (int64_t)(uintptr_t)t->device;
    key[n++] = (int64_t)t->type | (int64_t)t->rank << 8 | (int64_t)t->has_strides << 16;
    for (int d = 0; d < t->rank; d++) key[n++] = t->shape[d];
    for (int d = 0; t->has_strides && d < t->rank; d++) key[n++] = t->strides[d];
    return n;
}

// 0: the arguments have no key.
static int make_key(int64_t *key, const kiln_arg *args, int n_args, uint64_t *hash)
{
    int n = 0;
    if (n_args > PLAN_MAX_PARAMS || (n_args && !args)) return 0;
    key[n++] = n_args;
    for (int i = 0; i < n_args; i++) {
        const kiln_arg *const arg = &args[i];
        key[n++] = (int64_t)arg->kind;
        if (arg->kind == KILN_ARG_TENSOR) {
            if (!arg->tensor || arg->tensor->rank < 0 || arg->tensor->rank > MAX_RANK) return 0;
            n += add_tensor(key + n, arg->tensor);
        } else if (arg->kind != KILN_ARG_NONE) {
            memcpy(&key[n++], &arg->integer, sizeof *key);
        }
    }
    *hash = 0;
    for (int i = 0; i < n; i++) *hash = (*hash ^ (uint64_t)key[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return n;
}

// ---- the cache of a kernel

static struct PreparedCache *cache_of(kiln_kernel *kernel, bool make)
{
    struct PreparedCache *cache = atomic_load(&kernel->prepared), *none = NULL;
    if (cache || !make || !(cache = memory_alloc(sizeof *cache))) return cache;
    pthread_mutex_init(&cache->lock, NULL);
    if (atomic_compare_exchange_strong(&kernel->prepared, &none, cache)) return cache;
    prepared_free(cache); // another thread was first
    return none;
}

static void free_kept(Kept *kept)
{
    for (KeptStep *s = kept->steps, *next; s; s = next) {
        next = s->next;
        memory_free(s->args);
        memory_free(s->addresses);
        memory_free(s->values);
        memory_free(s);
    }
    memory_free(kept->key);
    memory_free(kept->addresses);
    memory_free(kept->temps);
    memory_free(kept);
}

void prepared_free(struct PreparedCache *cache)
{
    if (!cache) return;
    for (int i = 0; i < KEPT_MOST; i++)
        if (cache->kept[i]) free_kept(cache->kept[i]);
    pthread_mutex_destroy(&cache->lock);
    memory_free(cache);
}

// One that agrees, with a use more; NULL: none, or another thread looks.
static Kept *find_kept(struct PreparedCache *cache, const int64_t *key, int n, uint64_t hash)
{
    Kept *found = NULL;
    if (pthread_mutex_trylock(&cache->lock) != 0) return NULL;
    for (int i = 0; i < KEPT_MOST && !found; i++) {
        Kept *const kept = cache->kept[i];
        if (kept && kept->hash == hash && kept->n_key == n && memcmp(kept->key, key, sizeof *key * (size_t)n) == 0)
            found = kept;
    }
    if (found) found->uses++;
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static void end_use(struct PreparedCache *cache, Kept *kept)
{
    pthread_mutex_lock(&cache->lock);
    const bool last = --kept->uses == 0;
    pthread_mutex_unlock(&cache->lock);
    if (last) free_kept(kept);
}

// ---- addresses

typedef struct Places {
    const kiln_arg *args;
    int n_args;
    char *workspace;
    const Kept *kept;
} Places;

static char *address_of(const Places *places, const Address *a)
{
    return a->from < places->n_args ? places->args[a->from].tensor->data
                                    : places->workspace + (uintptr_t)places->kept->temps[a->from - places->n_args].data;
}

static bool addresses_fit(const Places *places, const Address *addresses, int n)
{
    uintptr_t begin[PLAN_MAX_PARAMS], end[PLAN_MAX_PARAMS];
    for (int i = 0; i < n; i++) {
        const Address *const a = &addresses[i];
        begin[i] = end[i] = 0;
        if (a->from < 0) continue;
        const uintptr_t at = (uintptr_t)address_of(places, a);
        if ((!at && !a->is_empty) || at % (uintptr_t)a->alignment != 0) return false;
        if (!a->is_empty) begin[i] = at + (uintptr_t)a->low, end[i] = at + (uintptr_t)a->high;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (begin[i] < end[j] && begin[j] < end[i] && (addresses[i].is_written || addresses[j].is_written))
                return false; // whether their elements do is found out the long way
    return true;
}

static bool places_fit(const Places *places, size_t workspace_bytes)
{
    const Kept *const kept = places->kept;
    if (kept->bytes &&
        (!places->workspace || workspace_bytes < kept->bytes || (uintptr_t)places->workspace % TEMP_ALIGNMENT != 0))
        return false;
    if (!addresses_fit(places, kept->addresses, kept->n_args)) return false;
    for (const KeptStep *s = kept->steps; s; s = s->next)
        if (!addresses_fit(places, s->addresses, s->n_args)) return false;
    return true;
}

// ---- running

static kiln_status run_step(const KeptStep *step, const Places *places, kiln_tensor *temps, kiln_stream *stream)
{
    Launch launch;
    kiln_arg args[PLAN_MAX_PARAMS];
    const int n_binds = step->plan->n_binds;
    launch.plan = step->plan;
    launch.args = args;
    launch.n_words = step->n_words;
    launch.instances = step->instances;
    launch.too_large = 0;
    memcpy(launch.grid, step->grid, sizeof launch.grid);
    memcpy(launch.words, step->values, sizeof *step->values * (size_t)step->n_words);
    memcpy(launch.symbols, step->values + step->n_words, sizeof *step->values * (size_t)n_binds);
    memcpy(launch.scalars, step->values + step->n_words + n_binds, sizeof *step->values * (size_t)step->n_args);
    for (int i = 0; i < step->n_args; i++) {
        const Address *const a = &step->addresses[i];
        args[i] = step->args[i];
        if (a->from < 0) continue;
        args[i].tensor = a->from < places->n_args ? places->args[a->from].tensor : &temps[a->from - places->n_args];
        launch.words[a->word] = (int64_t)(uintptr_t)args[i].tensor->data;
    }
    return step->kernel->device->kind->launch(step->kernel, stream, &launch);
}

static kiln_status run_steps(const Places *places, kiln_stream *stream)
{
    const Kept *const kept = places->kept;
    kiln_tensor temps[TEMPS_MOST];
    kiln_status status = KILN_OK;
    for (int i = 0; i < kept->n_temps; i++) {
        temps[i] = kept->temps[i];
        temps[i].data = places->workspace + (uintptr_t)kept->temps[i].data;
    }
    for (const KeptStep *s = kept->steps; !status && s; s = s->next) status = run_step(s, places, temps, stream);
    return status;
}

bool prepared_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                     size_t workspace_bytes, kiln_status *status)
{
    int64_t key[KEY_WORDS + 1];
    uint64_t hash;
    struct PreparedCache *const cache = cache_of(kernel, false);
    const int n = cache ? make_key(key, args, n_args, &hash) : 0;
    Kept *const kept = n ? find_kept(cache, key, n, hash) : NULL;
    if (!kept) return false;
    const Places places = { args, n_args, workspace, kept };
    const bool fits = kept->ran && places_fit(&places, workspace_bytes);
    if (fits) *status = run_steps(&places, stream);
    end_use(cache, kept);
    return fits;
}

bool prepared_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    int64_t key[KEY_WORDS + 1];
    uint64_t hash;
    struct PreparedCache *const cache = cache_of(kernel, false);
    const int n = cache ? make_key(key, args, n_args, &hash) : 0;
    Kept *const kept = n ? find_kept(cache, key, n, hash) : NULL;
    if (!kept) return false;
    const Places places = { args, n_args, NULL, kept };
    const bool fits = addresses_fit(&places, kept->addresses, kept->n_args);
    *bytes = kept->bytes;
    end_use(cache, kept);
    return fits;
}

// ---- keeping

static void *copy_of(const void *from, size_t bytes)
{
    void *const copy = memory_alloc(bytes ? bytes : 1);
    if (copy && bytes) memcpy(copy, from, bytes);
    return copy;
}

static Address *addresses_of(const Launch *launch, int n_args, const int *from)
{
    Address *const addresses = memory_alloc(sizeof *addresses * (size_t)(n_args ? n_args : 1));
    int words[PLAN_MAX_PARAMS];
    launch_address_words(launch->plan, words);
    for (int i = 0; addresses && i < n_args; i++) {
        const PlanParam *const param = &launch->plan->params[i];
        uintptr_t begin, end;
        addresses[i] = (Address){ .from = -1 };
        if (!param->is_tensor || param->absent) continue;
        const kiln_tensor *const t = launch->args[i].tensor;
        addresses[i] = (Address){ from ? from[i] : i,
                                  words[i],
                                  launch_alignment(launch->plan, param),
                                  (param->access & ACCESS_OUT) != 0,
                                  !tensor_range(t, &begin, &end),
                                  0,
                                  0 };
        if (!addresses[i].is_empty)
            addresses[i].low = (intptr_t)(begin - (uintptr_t)t->data),
            addresses[i].high = (intptr_t)(end - (uintptr_t)t->data);
    }
    return addresses;
}

Kept *prepared_begin(const kiln_kernel *kernel, const Launch *outer, int n_args)
{
    int64_t key[KEY_WORDS + 1];
    uint64_t hash;
    const int n = make_key(key, outer->args, n_args, &hash);
    Kept *const kept = n ? memory_alloc(sizeof *kept) : NULL;
    if (!kept) return NULL;
    *kept = (Kept){ .uses = 1,
                    .hash = hash,
                    .n_key = n,
                    .n_args = n_args,
                    .key = copy_of(key, sizeof *key * (size_t)n),
                    .addresses = addresses_of(outer, n_args, NULL) };
    kept->end = &kept->steps;
    kept->failed = !kept->key || !kept->addresses;
    return kept;
}

void prepared_temps(Kept *kept, const kiln_tensor *temps, const char *workspace, int n, size_t bytes)
{
    if (!kept) return;
    kept->bytes = bytes;
    kept->n_temps = n;
    kept->temps = copy_of(temps, sizeof *temps * (size_t)n);
    kept->failed |= !kept->temps || n > TEMPS_MOST;
    for (int i = 0; kept->temps && i < n; i++)
        kept->temps[i].data = (void *)((uintptr_t)temps[i].data - (uintptr_t)workspace);
}

void prepared_step(Kept *kept, kiln_kernel *kernel, const Launch *launch, const int *from)
{
    KeptStep *const step = kept ? memory_alloc(sizeof *step) : NULL;
    if (!step) {
        if (kept) kept->failed = true;
        return;
    }
    const int n = launch->plan->n_params, n_binds = launch->plan->n_binds;
    *kept->end = step;
    kept->end = &step->next;
    *step = (KeptStep){ .kernel = kernel,
                        .plan = launch->plan,
                        .n_args = n,
                        .n_words = launch->n_words,
                        .instances = launch->instances,
                        .args = copy_of(launch->args, sizeof(kiln_arg) * (size_t)n),
                        .addresses = addresses_of(launch, n, from),
                        .values = memory_alloc(sizeof(int64_t) * (size_t)(launch->n_words + n_binds + n + 1)) };
    memcpy(step->grid, launch->grid, sizeof step->grid);
    kept->failed |= !step->args || !step->addresses || !step->values;
    if (!step->values) return;
    memcpy(step->values, launch->words, sizeof(int64_t) * (size_t)launch->n_words);
    memcpy(step->values + launch->n_words, launch->symbols, sizeof(int64_t) * (size_t)n_binds);
    memcpy(step->values + launch->n_words + n_binds, launch->scalars, sizeof(int64_t) * (size_t)n);
}

// In the place of what says the same of the same arguments, or of what was kept longest.
void prepared_end(kiln_kernel *kernel, Kept *kept, bool ok, bool ran)
{
    if (!kept) return;
    struct PreparedCache *const cache = ok && !kept->failed ? cache_of(kernel, true) : NULL;
    if (!cache || pthread_mutex_trylock(&cache->lock) != 0) {
        free_kept(kept);
        return;
    }
    kept->ran = ran;
    int at = cache->next;
    for (int i = 0; i < KEPT_MOST; i++)
        if (cache->kept[i] && cache->kept[i]->hash == kept->hash) at = i;
    if (at == cache->next) cache->next = (cache->next + 1) % KEPT_MOST;
    Kept *const old = cache->kept[at];
    cache->kept[at] = kept;
    const bool last = old && --old->uses == 0;
    pthread_mutex_unlock(&cache->lock);
    if (last) free_kept(old);
}
