// SPDX-License-Identifier: MIT
// prepared.c - launches that were checked before (prepared.h).
#include "runtime/prepared.h"

#include "base/fork.h"
#include "base/memory.h"

enum { KEPT_MOST = 8, KEY_WORDS = 1 + PLAN_MAX_PARAMS * (3 + 2 * MAX_RANK) };

// A launch in the words of a recording: this, its words, what is computed beside them, its patches.
typedef struct Step {
    kiln_kernel *kernel;
    const LaunchPlan *plan;
    int64_t instances;
    int n_words, n_computed, n_patches;
} Step;

// A word is the address of a place and an offset.
typedef struct Patch {
    int place, word;
    intptr_t offset;
} Patch;

enum {
    STEP_WORDS = (sizeof(Step) + sizeof(int64_t) - 1) / sizeof(int64_t),
    PATCH_WORDS = sizeof(Patch) / sizeof(int64_t)
};

struct Prepared {
    _Atomic int uses;
    int n_given, n_places, n_steps;
    size_t bytes;
    uintptr_t *fixed; // addresses of the places that are not given
    Place *places;
    int64_t words[];
};

// Of one kernel's launches.
typedef struct Kept {
    int64_t *key; // NULL: none
    int n_key;
    bool ran; // false: it holds the workspace's size alone
    Prepared *prepared;
} Kept;

struct PreparedCache {
    // Only tried: who does not get it goes the long way, for ever in a child that was forked beside who had it.
    pthread_mutex_t lock;
    Kept kept[KEPT_MOST];
    int next;   // to be replaced
    int recent; // agreed last
};

// ---- recording

void recording_begin(Recording *r)
{
    r->failed = false;
    r->n_given = r->n_places = r->n_steps = r->n_words = 0;
    r->bytes = 0;
}

// NULL: it has failed.
static Place *add_place(Recording *r, const kiln_tensor *tensor, uintptr_t at)
{
    if (r->n_places == PLACES_MOST) r->failed = true;
    if (r->failed) return NULL;
    Place *const place = &r->places[r->n_places];
    *place = (Place){ .same_as = -1, .alignment = 1 };
    r->tensors[r->n_places] = tensor;
    r->at[r->n_places++] = at;
    return place;
}

static void add_tensor_place(Recording *r, const kiln_tensor *tensor)
{
    uintptr_t begin, end;
    const uintptr_t at = (uintptr_t)tensor->data;
    if (tensor_elements(tensor) < 0) r->failed = true;
    Place *const place = add_place(r, tensor, at);
    if (!place) return;
    place->is_empty = !tensor_range(tensor, &begin, &end);
    if (place->is_empty) return;
    place->low = (intptr_t)(begin - at), place->high = (intptr_t)(end - at);
    for (int i = 0; i < r->n_places - 1 && place->same_as < 0; i++)
        if (!r->places[i].is_empty && r->at[i] == at) place->same_as = i;
}

void recording_give(Recording *r, const kiln_tensor *tensor)
{
    r->failed |= r->n_given != r->n_places;
    add_tensor_place(r, tensor);
    r->n_given++;
}

void recording_give_workspace(Recording *r, const void *memory, size_t bytes)
{
    r->failed |= r->n_given != r->n_places;
    Place *const place = add_place(r, NULL, (uintptr_t)memory);
    r->n_given++;
    if (!place) return;
    place->is_empty = !bytes;
    place->is_written = true;
    place->alignment = WORKSPACE_ALIGNMENT;
    place->high = (intptr_t)bytes;
}

// The place that a tensor is, or the only one that it begins in; -1: none, -2: one of several.
static int find_place(const Recording *r, const kiln_tensor *tensor)
{
    const uintptr_t at = (uintptr_t)tensor->data;
    int found = -1;
    for (int i = 0; i < r->n_places; i++)
        if (r->tensors[i] == tensor) return i;
    for (int i = 0; i < r->n_places; i++) {
        const Place *const place = &r->places[i];
        if (place->is_empty || place->same_as >= 0 || at < r->at[i] + (uintptr_t)place->low ||
            at >= r->at[i] + (uintptr_t)place->high)
            continue;
        if (found >= 0) return -2;
        found = i;
    }
    return found;
}

// Its place, held to what is demanded of the tensor; -1: it has no elements.
static int demand(Recording *r, const kiln_tensor *tensor, int alignment, bool is_written)
{
    uintptr_t begin, end;
    const int p = find_place(r, tensor);
    const bool is_empty = !tensor_range(tensor, &begin, &end);
    if (p < 0) {
        r->failed |= !is_empty;
        return -1;
    }
    if (((uintptr_t)tensor->data - r->at[p]) % (uintptr_t)alignment != 0) r->failed = true;
    if (alignment > r->places[p].alignment) r->places[p].alignment = alignment;
    r->places[p].is_written |= is_written;
    return is_empty ? -1 : p;
}

void recording_demand(Recording *r, const kiln_tensor *tensor, int alignment, bool is_written, bool fixed)
{
    if (fixed && find_place(r, tensor) == -1) add_tensor_place(r, tensor);
    if (!r->failed) demand(r, tensor, alignment, is_written);
}

// A launch's tensors held to what it demands of them; where their addresses go.
static int demand_all(Recording *r, const Launch *launch, Patch *patches)
{
    const LaunchPlan *const plan = launch->plan;
    int words[PLAN_MAX_PARAMS], n = 0;
    launch_address_words(plan, words);
    for (int i = 0; i < plan->n_params && !r->failed; i++) {
        const PlanParam *const param = &plan->params[i];
        if (!param->is_tensor || param->absent) continue;
        const kiln_tensor *const t = launch->args[i].tensor;
        const int p = demand(r, t, launch_alignment(plan, param), (param->access & ACCESS_OUT) != 0);
        if (p >= 0) patches[n++] = (Patch){ p, words[i], (intptr_t)((uintptr_t)t->data - r->at[p]) };
    }
    return n;
}

void recording_of_args(Recording *r, const Launch *outer, int n_args)
{
    Patch patches[PLAN_MAX_PARAMS];
    recording_begin(r);
    for (int i = 0; i < n_args; i++)
        if (outer->args[i].kind == KILN_ARG_TENSOR) recording_give(r, outer->args[i].tensor);
    demand_all(r, outer, patches);
}

void recording_need(Recording *r, const void *workspace, size_t bytes)
{
    const uintptr_t at = (uintptr_t)workspace;
    r->bytes += bytes;
    for (int i = 0; i < r->n_places; i++)
        if (!r->tensors[i] && r->at[i] <= at && at + bytes <= r->at[i] + (uintptr_t)r->places[i].high) return;
    if (bytes) recording_give_workspace(r, workspace, bytes);
}

static void add_words(Recording *r, const void *from, size_t words)
{
    memcpy(r->words + r->n_words, from, sizeof *r->words * words);
    r->n_words += (int)words;
}

void recording_step(Recording *r, kiln_kernel *kernel, const Launch *launch)
{
    Patch patches[PLAN_MAX_PARAMS];
    Step step = { .kernel = kernel,
                  .plan = launch->plan,
                  .instances = launch->instances,
                  .n_words = launch->n_words,
                  .n_computed = launch->n_computed };
    step.n_patches = demand_all(r, launch, patches);
    const int needed = STEP_WORDS + step.n_words + step.n_computed + PATCH_WORDS * step.n_patches;
    if (r->n_words + needed > RECORDED_WORDS) r->failed = true;
    if (r->failed) return;
    memcpy(r->words + r->n_words, &step, sizeof step);
    r->n_words += STEP_WORDS;
    add_words(r, launch->words, (size_t)step.n_words);
    add_words(r, launch->computed, (size_t)step.n_computed);
    add_words(r, patches, (size_t)(PATCH_WORDS * step.n_patches));
    r->n_steps++;
}

// ---- what is kept of it

Prepared *prepared_of(const Recording *r)
{
    const int n_fixed = r->n_places - r->n_given;
    const size_t words = sizeof *r->words * (size_t)r->n_words, places = sizeof *r->places * (size_t)r->n_places;
    Prepared *const p = r->failed ? NULL : memory_alloc(sizeof *p + words + places + sizeof *r->at * (size_t)n_fixed);
    if (!p) return NULL;
    p->uses = 1;
    p->n_given = r->n_given, p->n_places = r->n_places, p->n_steps = r->n_steps;
    p->bytes = r->bytes;
    p->fixed = (uintptr_t *)((char *)p->words + words);
    p->places = (Place *)(p->fixed + n_fixed);
    memcpy(p->words, r->words, words);
    memcpy(p->fixed, r->at + r->n_given, sizeof *r->at * (size_t)n_fixed);
    memcpy(p->places, r->places, places);
    return p;
}

void prepared_use(Prepared *p) { atomic_fetch_add(&p->uses, 1); }
size_t prepared_bytes(const Prepared *p) { return p->bytes; }

void prepared_end_use(Prepared *p)
{
    if (p && atomic_fetch_sub(&p->uses, 1) == 1) memory_free(p);
}

// Of the first n places: that they are there, aligned, and that what is written is apart from everything else: whether
// elements of those that are not do overlap is found out the long way.
static bool addresses_fit(const Prepared *p, int n, const uintptr_t *at)
{
    uintptr_t begin[PLACES_MOST], end[PLACES_MOST];
    int written[PLACES_MOST], n_written = 0, m = 0;
    for (int i = 0; i < n; i++) {
        const Place *const place = &p->places[i];
        if ((at[i] & ((uintptr_t)place->alignment - 1)) != 0) return false;
        if (place->is_empty) continue;
        if (!at[i] || (place->same_as >= 0 && at[i] != at[place->same_as])) return false;
        begin[m] = at[i] + (uintptr_t)place->low, end[m] = at[i] + (uintptr_t)place->high;
        if (place->is_written) written[n_written++] = m;
        m++;
    }
    for (int k = 0; k < n_written; k++) {
        const uintptr_t low = begin[written[k]], high = end[written[k]];
        int met = 0; // itself is one
        for (int j = 0; j < m; j++) met += (low < end[j]) & (begin[j] < high);
        if (met > 1) return false;
    }
    return true;
}

// Runs the step that begins at `words`; what follows it is the next.
static const int64_t *run_step(const int64_t *words, kiln_stream *stream, const uintptr_t *at, kiln_status *status)
{
    Launch launch;
    Step step;
    memcpy(&step, words, sizeof step);
    const int64_t *const computed = words + STEP_WORDS + step.n_words;
    const int64_t *patches = computed + step.n_computed;
    launch.plan = step.plan;
    launch.n_words = step.n_words;
    launch.n_computed = step.n_computed;
    launch.instances = step.instances;
    memcpy(launch.words, words + STEP_WORDS, sizeof *words * (size_t)step.n_words);
    memcpy(launch.computed, computed, sizeof *words * (size_t)step.n_computed);
    for (int i = 0; i < step.n_patches; i++, patches += PATCH_WORDS) {
        Patch patch;
        memcpy(&patch, patches, sizeof patch);
        launch.words[patch.word] = (int64_t)(at[patch.place] + (uintptr_t)patch.offset);
    }
    *status = step.kernel->device->kind->launch(step.kernel, stream, &launch);
    return patches;
}

bool prepared_run(const Prepared *p, kiln_stream *stream, uintptr_t *at, kiln_status *status)
{
    for (int i = p->n_given; i < p->n_places; i++) at[i] = p->fixed[i - p->n_given];
    if (!addresses_fit(p, p->n_places, at)) return false;
    const int64_t *words = p->words;
    *status = KILN_OK;
    for (int i = 0; i < p->n_steps && !*status; i++) words = run_step(words, stream, at, status);
    return true;
}

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

static void forget(Kept *kept)
{
    prepared_end_use(kept->prepared);
    memory_free(kept->key);
}

void prepared_free(struct PreparedCache *cache)
{
    if (!cache) return;
    for (int i = 0; i < KEPT_MOST; i++) forget(&cache->kept[i]);
    pthread_mutex_destroy(&cache->lock);
    memory_free(cache);
}

// One that agrees, with a use more; NULL: none, or other threads look.
static Prepared *find_kept(kiln_kernel *kernel, const kiln_arg *args, int n_args, bool to_run)
{
    struct PreparedCache *const cache = cache_of(kernel, false);
    Prepared *found = NULL;
    if (!cache || !fork_try_lock(&cache->lock)) return NULL;
    for (int i = 0; i < KEPT_MOST && !found; i++) {
        const int at = (cache->recent + i) % KEPT_MOST;
        const Kept *const kept = &cache->kept[at];
        if (!kept->key || (to_run && !kept->ran) || !is_key_of(kept->key, args, n_args)) continue;
        found = kept->prepared;
        cache->recent = at;
        prepared_use(found);
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static int take_addresses(const kiln_arg *args, int n_args, uintptr_t *at)
{
    int n = 0;
    for (int i = 0; i < n_args; i++)
        if (args[i].kind == KILN_ARG_TENSOR) at[n++] = (uintptr_t)args[i].tensor->data;
    return n;
}

bool prepared_launch(kiln_kernel *kernel, kiln_stream *stream, const kiln_arg *args, int n_args, void *workspace,
                     size_t workspace_bytes, kiln_status *status)
{
    uintptr_t at[PLACES_MOST];
    Prepared *const p = find_kept(kernel, args, n_args, true);
    if (!p) return false;
    at[take_addresses(args, n_args, at)] = (uintptr_t)workspace;
    const bool fits = workspace_bytes >= p->bytes && prepared_run(p, stream, at, status);
    prepared_end_use(p);
    return fits;
}

bool prepared_size(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    uintptr_t at[PLACES_MOST];
    Prepared *const p = find_kept(kernel, args, n_args, false);
    if (!p) return false;
    const bool fits = addresses_fit(p, take_addresses(args, n_args, at), at);
    if (fits) *bytes = p->bytes;
    prepared_end_use(p);
    return fits;
}

bool prepared_size_of_shapes(kiln_kernel *kernel, const kiln_arg *args, int n_args, size_t *bytes)
{
    Prepared *const p = find_kept(kernel, args, n_args, false);
    if (!p) return false;
    *bytes = p->bytes;
    prepared_end_use(p);
    return true;
}

// In the place of what says the same of the same arguments, or of what was kept longest.
static void exchange(struct PreparedCache *cache, Kept *made)
{
    const size_t bytes = sizeof *made->key * (size_t)made->n_key;
    int at = cache->next;
    for (int i = 0; i < KEPT_MOST; i++)
        if (cache->kept[i].key && cache->kept[i].n_key == made->n_key &&
            memcmp(cache->kept[i].key, made->key, bytes) == 0)
            at = i;
    if (at == cache->next) cache->next = (cache->next + 1) % KEPT_MOST;
    const Kept old = cache->kept[at];
    cache->kept[at] = *made;
    cache->recent = at;
    *made = old;
}

void prepared_keep(kiln_kernel *kernel, const Recording *r, const kiln_arg *args, int n_args, bool ran)
{
    int64_t key[KEY_WORDS];
    Kept kept = { .n_key = make_key(key, args, n_args), .ran = ran };
    struct PreparedCache *const cache = kept.n_key && !r->failed ? cache_of(kernel, true) : NULL;
    if (!cache) return;
    const size_t bytes = sizeof *key * (size_t)kept.n_key;
    kept.prepared = prepared_of(r);
    kept.key = memory_alloc(bytes);
    if (kept.key) memcpy(kept.key, key, bytes);
    if (kept.key && kept.prepared && fork_try_lock(&cache->lock)) {
        exchange(cache, &kept); // `kept` is what it was in the place of
        pthread_mutex_unlock(&cache->lock);
    }
    forget(&kept);
}
