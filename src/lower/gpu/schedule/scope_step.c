// SPDX-License-Identifier: MIT
// scope_step.c - the step of a loop for which a scope's body runs: what each kind of scope means, to all that run a schedule.
#include "lower/gpu/schedule/action.h"

int scope_step(ScopeKind kind, LoopPlace place)
{
    const int n = place.n, at = place.at;
    switch (kind) {
    case SCOPE_ANY_STEP: return n > 0 ? (place.is_inside ? at : 0) : -1;
    case SCOPE_NO_STEP: return n == 0 ? 0 : -1;
    case SCOPE_FIRST_STEP: return n > 0 && (!place.is_inside || at == 0) ? 0 : -1;
    case SCOPE_LAST_STEP: return n > 0 && (!place.is_inside || at == n - 1) ? n - 1 : -1;
    case SCOPE_PREVIOUS_STEP: return place.is_inside ? at - 1 : n - 1;
    case SCOPE_NEXT_STEP: return at + 1 < n ? at + 1 : at;
    case SCOPE_FURTHER_STEP: return at + 1 < n ? at + 1 : -1;
    case SCOPE_BUT_LAST: return at < n ? at : -1;
    case SCOPE_BUT_FIRST: return at - 1;
    case SCOPE_STEP_AHEAD: return place.is_inside && at + place.ahead < n ? at + place.ahead : -1;
    case SCOPE_HAS_STEP:
    case SCOPE_ISSUE:
    case SCOPE_ONE_GROUP:
    case SCOPE_ONE_THREAD:
    case SCOPE_ONE_WARP:
    case SCOPE_EACH_WARP:
    case SCOPE_ALIGNED:
    case SCOPE_ROW_PART: return at;
    }
    return at;
}
