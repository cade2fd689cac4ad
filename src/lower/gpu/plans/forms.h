// SPDX-License-Identifier: MIT
// forms.h - what an action carries beyond its kind: plans of one statement, and of what stands around a loop's steps. The
// first member of each says which it is. Deciding makes them, printing reads them.
#ifndef KILN_LOWER_GPU_PLANS_FORMS_H
#define KILN_LOWER_GPU_PLANS_FORMS_H

typedef enum PlanForm {
    PLAN_MAP,      // of a map over elements (map.h)
    PLAN_TRANSFER, // convert_layout.h
    PLAN_PIECES,   // of a copy that runs ahead by cp.async (multistage.h)
    PLAN_STORE,    // of a store through staging (store.h)
    PLAN_BOXES,    // of its boxes
    PLAN_ROWS,     // rows.h
    PLAN_ROW_ELEMENTS,
    PLAN_STEPPED_ROWS,
    PLAN_SHIFTED_ROWS,
    PLAN_CONVERSION, // convert_layout.h
    PLAN_CONVERSION_PART,
    PLAN_MATRIX_LOAD, // matrix_load.h
} PlanForm;

// The same of a loop and of the scopes of its steps; without `print` a loop stays as the source has it.
typedef enum StepsForm {
    STEPS_SOFTWARE_PIPELINE, // pipeline.h
    STEPS_EARLY_ISSUE,
    STEPS_PRODUCT_LOOP,
    STEPS_OF_PRODUCER,    // producer.h
    STEPS_MULTISTAGE,     // multistage.h
    STEPS_OF_ROW_INDICES, // rows.h
    STEPS_OF_STEPPED_ROWS,
    STEPS_OF_SHIFTED_ROWS,
    STEPS_WITH_THE_LOOP, // of a scope whose text is part of its loop's
} StepsForm;

#endif
