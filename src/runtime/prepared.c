// SPDX-License-Identifier: MIT
// prepared.c - launches that were checked before (prepared.h).
#include "runtime/prepared.h"

#include "base/fork.h"
#include "base/memory.h"

#include <stdatomic.h>

enum {
    KEPT_MOST = 8,
    KEY_WORDS = 1 + PLAN_MAX_PARAMS * (3 + 2 * MAX_RANK),
    TEMPS_MOST = 64,
    PLACES_MOST = PLAN_MAX_PARAMS + TEMPS_MOST,
    TEMP_ALIGNMENT = 256
};

// A tensor whose address launches take: an argument of the caller's, or, after those, a temporary in the workspace.
typedef struct Place {
    bool is_used, is_empty;
    int alignment;
    uintptr_t offset;                 // of a temporary, from the workspace
    intptr_t low, high;               // the bytes that it reaches, from its address
    uint64_t apart[PLACES_MOST / 64]; // those before it that it must not overlap, because one of the two is written
} Place;

// The address of a place goes to a word of a launch.
typedef struct Patch {
    int place, word;
} Patch;

typedef struct KeptStep {
    struct KeptStep *next;
    kiln_kernel *kernel;
    const LaunchPlan *plan;
    int n_words, n_computed, n_patches;
    int64_t instances;
    int64_t *values; // words, then what is computed beside them
    Patch *patches;
} KeptStep;

struct Kept {
    _Atomic int uses; // by the cache and by launches under way
    int n_key, n_args, n_places;
    bool ran;
    size_t bytes; // of the workspace
    int64_t *key;
    Place *places;
    KeptStep *steps, **end;
    bool failed; // there was no memory for a part of it
};

struct PreparedCache {
    // Only tried: who does not get it goes the long way, for ever in a child that was forked beside who had it.
    pthread_mutex_t lock;
    Kept *kept[KEPT_MOST];
    int next;   // to be replaced
    int recent; // agreed last
};

// ---- the key: all of the arguments but addresses

static int64_t tensor_word(const kiln_tensor *t)
{
    return (int64_t)((uint64_t)t->type << 33 | (uint64_t)t->has_strides << 32 | (uint32_t)t->rank);
}

static int add_tensor(int64_t *key, const kiln_tensor *t)
{
    int n = 0;
    key[n++] = (int64_t)(uintptr_t)t->device;
    key[n++] = tensor_word(t);
    for (int d = 0; d < t->rank; d++) key[n++] = t->shape[d];
    for (int d = 0; t->has_strides && d < t->rank; d++) key[n++] = t->strides[d];
    return n;
}

// 0: the arguments have no key.
static int make_key(int64_t key[KEY_WORDS], const kiln_arg *args, int n_args)
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
            key[n++] = arg->integer;
        }
    }
    return n;
}

// Past the tensor's words of the key; NULL: they are another's. A key has sound ranks alone.
static const int64_t *pass_tensor(const int64_t *key, const kiln_tensor *t)
{
    if (!t || key[0] != (int64_t)(uintptr_t)t->device || key[1] != tensor_word(t)) return NULL;
    key += 2;
    for (int d = 0; d < t->rank; d++)
        if (*key++ != t->shape[d]) return NULL;
    for (int d = 0; t->has_strides && d < t->rank; d++)
        if (*key++ != t->strides[d]) return NULL;
    return key;
}

// Whether it is the key of these arguments, without making theirs.
static bool is_key_of(const int64_t *key, const kiln_arg *args, int n_args)
{
    if (*key++ != n_args || (n_args && !args)) return false;
    for (int i = 0; i < n_args; i++) {
        const kiln_arg *const arg = &args[i];
        if (*key++ != (int64_t)arg->kind) return false;
        if (arg->kind == KILN_ARG_TENSOR) {
            if (!(key = pass_tensor(key, arg->tensor))) return false;
        } else if (arg->kind != KILN_ARG_NONE && *key++ != arg->integer) {
            return false;
        }
    }
    return true;
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

static void end_use(Kept *kept)
{
    if (atomic_fetch_sub(&kept->uses, 1) > 1) return;
    for (KeptStep *s = kept->steps, *next; s; s = next) {
        next = s->next;
        memory_free(s->values);
        memory_free(s->patches);
        memory_free(s);
    }
    memory_free(kept->key);
    memory_free(kept->places);
    memory_free(kept);
}

void prepared_free(struct PreparedCache *cache)
{
    if (!cache) return;
    for (int i = 0; i < KEPT_MOST; i++)
        if (cache->kept[i]) end_use(cache->kept[i]);
    pthread_mutex_destroy(&cache->lock);
    memory_free(cache);
}

// One that agrees, with a use more; NULL: none, or other threads look.
static Kept *find_kept(kiln_kernel *kernel, const kiln_arg *args, int n_args)
{
    struct PreparedCache *const cache = cache_of(kernel, false);
    Kept *found = NULL;
    if (!cache || !fork_try_lock(&cache->lock)) return NULL;
    for (int i = 0; i < KEPT_MOST && !found; i++) {
        const int at = (cache->recent + i) % KEPT_MOST;
        if (!cache->kept[at] || !is_key_of(cache->kept[at]->key, args, n_args)) continue;
        found = cache->kept[at];
        cache->recent = at;
        atomic_fetch_add(&found->uses, 1);
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

// ---- addresses

// The addresses of the first n places, and whether they are there, aligned, and as far apart as they must be: whether
// elements of those that are not do overlap is found out the long way.
static bool find_addresses(const Kept *kept, int n, const kiln_arg *args, const void *workspace, uintptr_t *at)
{
    uintptr_t begin[PLACES_MOST], end[PLACES_MOST];
    for (int i = 0; i < n; i++) {
        const Place *const place = &kept->places[i];
        if (!place->is_used) continue;
        at[i] = i < kept->n_args ? (uintptr_t)args[i].tensor->data : (uintptr_t)workspace + place->offset;
        if ((at[i] & ((uintptr_t)place->alignment - 1)) != 0) return false;
        if (place->is_empty) continue;
        if (!at[i]) return false;
        begin[i] = at[i] + (uintptr_t)place->low, end[i] = at[i] + (uintptr_t)place->high;
        for (int w = 0; w < PLACES_MOST / 64; w++)
            for (uint64_t left = place->apart[w]; left; left &= left - 1) {
                const int j = w * 64 + __builtin_ctzll(left);
                if (begin[i] < end[j] && begin[j] < end[i]) return false;
            }
    }
    return true;
}

static bool workspace_fits(const Kept *kept, const void *workspace, size_t bytes)
{
    return !kept->bytes || (workspace && bytes >= kept->bytes && (uintptr_t)workspace % TEMP_ALIGNMENT == 0);
}

// ---- running

static kiln_status run_step(const KeptStep *step, kiln_stream *stream, const uintptr_t *at)
{
    Launch launch;
    launch.plan = step->plan;
    launch.n_words = step->n_words;
    launch.instances = step->instances;
    memcpy(launch.words, step->values, sizeof *step->values * (size_t)step->n_words);
    memcpy(launch.computed, step->values + step->n_words, sizeof *step->values * (size_t)step->n_computed);
    for (int i = 0; i < step->n_patches; i++) launch.words[step->patches[i].word] = (int64_t)at[step->patches[i].place];
    return step->kernel->device->kind->launch(step->kernel, stream, &launch);
}

bool prepared_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                     size_t workspace_bytes, kiln_status *status)
{
    uintptr_t at[PLACES_MOST];
    Kept *const kept = find_kept(kernel, args, n_args);
    if (!kept) return false;
    const bool fits = kept->ran && workspace_fits(kept, workspace, workspace_bytes) &&
                      find_addresses(kept, kept->n_places, args, workspace, at);
    *status = KILN_OK;
    for (const KeptStep *s = kept->steps; fits && !*status && s; s = s->next) *status = run_step(s, stream, at);
    end_use(kept);
    return fits;
}

bool prepared_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    uintptr_t at[PLACES_MOST];
    Kept *const kept = find_kept(kernel, args, n_args);
    if (!kept) return false;
    const bool fits = find_addresses(kept, kept->n_args, args, NULL, at);
    if (fits) *bytes = kept->bytes;
    end_use(kept);
    return fits;
}

bool prepared_size_of_shapes(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    Kept *const kept = find_kept(kernel, args, n_args);
    if (!kept) return false;
    *bytes = kept->bytes;
    end_use(kept);
    return true;
}

// ---- keeping

static void *copy_of(const void *from, size_t bytes)
{
    void *const copy = memory_alloc(bytes);
    if (copy && bytes) memcpy(copy, from, bytes);
    return copy;
}

// What a launch demands of the places that its tensors are. from[i]: that of argument i; NULL: its own number.
static void add_demands(Kept *kept, const Launch *launch, const int *from)
{
    const LaunchPlan *const plan = launch->plan;
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *const param = &plan->params[i];
        if (!param->is_tensor || param->absent) continue;
        const int p = from ? from[i] : i;
        const kiln_tensor *const t = launch->args[i].tensor;
        Place *const place = &kept->places[p];
        const int alignment = launch_alignment(plan, param);
        uintptr_t begin, end;
        place->is_used = true;
        place->is_empty = !tensor_range(t, &begin, &end);
        place->alignment = alignment > place->alignment ? alignment : place->alignment;
        if (place->is_empty) continue;
        place->low = (intptr_t)(begin - (uintptr_t)t->data), place->high = (intptr_t)(end - (uintptr_t)t->data);
        for (int j = 0; j < i; j++) { // temporaries stay as far apart as they are
            const int q = plan->params[j].is_tensor && !plan->params[j].absent ? from ? from[j] : j : -1;
            if (q < 0 || kept->places[q].is_empty || (p >= kept->n_args && q >= kept->n_args)) continue;
            if (((param->access | plan->params[j].access) & ACCESS_OUT) != 0)
                kept->places[p > q ? p : q].apart[(p > q ? q : p) / 64] |= UINT64_C(1) << ((p > q ? q : p) % 64);
        }
    }
}

Kept *prepared_begin(const Launch *outer, int n_args)
{
    int64_t key[KEY_WORDS];
    const int n = make_key(key, outer->args, n_args);
    Kept *const kept = n ? memory_alloc(sizeof *kept) : NULL;
    if (!kept) return NULL;
    kept->uses = 1;
    kept->n_key = n;
    kept->n_args = kept->n_places = n_args;
    kept->key = copy_of(key, sizeof *key * (size_t)n);
    kept->places = memory_alloc(sizeof *kept->places * (size_t)n_args);
    kept->end = &kept->steps;
    kept->failed = !kept->key || !kept->places;
    if (!kept->failed) add_demands(kept, outer, NULL);
    return kept;
}

void prepared_temps(Kept *kept, const kiln_tensor *temps, const char *workspace, int n, size_t bytes)
{
    if (!kept || kept->failed) return;
    Place *const places = n <= TEMPS_MOST ? memory_alloc(sizeof *places * (size_t)(kept->n_args + n)) : NULL;
    kept->failed = !places;
    kept->bytes = bytes;
    if (!places) return;
    memcpy(places, kept->places, sizeof *places * (size_t)kept->n_args);
    memory_free(kept->places);
    kept->places = places;
    kept->n_places = kept->n_args + n;
    for (int i = 0; i < n; i++) places[kept->n_args + i].offset = (uintptr_t)temps[i].data - (uintptr_t)workspace;
}

static int find_patches(const LaunchPlan *plan, const int *from, Patch *patches)
{
    int words[PLAN_MAX_PARAMS], n = 0;
    launch_address_words(plan, words);
    for (int i = 0; i < plan->n_params; i++)
        if (plan->params[i].is_tensor && !plan->params[i].absent)
            patches[n++] = (Patch){ .place = from ? from[i] : i, .word = words[i] };
    return n;
}

void prepared_step(Kept *kept, kiln_kernel *kernel, const Launch *launch, const int *from)
{
    Patch patches[PLAN_MAX_PARAMS];
    KeptStep *const step = kept && !kept->failed ? memory_alloc(sizeof *step) : NULL;
    if (!step) {
        if (kept) kept->failed = true;
        return;
    }
    *kept->end = step;
    kept->end = &step->next;
    *step = (KeptStep){ .kernel = kernel,
                        .plan = launch->plan,
                        .n_words = launch->n_words,
                        .n_computed = launch->n_computed,
                        .n_patches = find_patches(launch->plan, from, patches),
                        .instances = launch->instances,
                        .values = memory_alloc(sizeof(int64_t) * (size_t)(launch->n_words + launch->n_computed)) };
    step->patches = copy_of(patches, sizeof *patches * (size_t)step->n_patches);
    kept->failed = !step->values || !step->patches;
    if (kept->failed) return;
    memcpy(step->values, launch->words, sizeof(int64_t) * (size_t)launch->n_words);
    memcpy(step->values + launch->n_words, launch->computed, sizeof(int64_t) * (size_t)launch->n_computed);
    add_demands(kept, launch, from);
}

// In the place of what says the same of the same arguments, or of what was kept longest.
void prepared_end(kiln_kernel *kernel, Kept *kept, bool ok, bool ran)
{
    if (!kept) return;
    struct PreparedCache *const cache = ok && !kept->failed ? cache_of(kernel, true) : NULL;
    if (!cache || !fork_try_lock(&cache->lock)) {
        end_use(kept);
        return;
    }
    kept->ran = ran;
    int at = cache->next;
    for (int i = 0; i < KEPT_MOST; i++)
        if (cache->kept[i] && cache->kept[i]->n_key == kept->n_key &&
            memcmp(cache->kept[i]->key, kept->key, sizeof *kept->key * (size_t)kept->n_key) == 0)
            at = i;
    if (at == cache->next) cache->next = (cache->next + 1) % KEPT_MOST;
    Kept *const old = cache->kept[at];
    cache->kept[at] = kept;
    cache->recent = at;
    pthread_mutex_unlock(&cache->lock);
    if (old) end_use(old);
}
