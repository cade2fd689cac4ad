// SPDX-License-Identifier: MIT
// abi_test.c - what programs built apart from the library rely on: its version, the sizes of argument structs, DLPack's structs.
#include <kiln/ops/attention.h>
#include <kiln/ops/block_sparse.h>
#include <kiln/ops/decode.h>
#include <kiln/ops/deepseek.h>
#include <kiln/ops/gemm.h>
#include <kiln/ops/mla.h>
#include <kiln/ops/moe.h>
#include <kiln/ops/nn.h>
#include <kiln/ops/nsa.h>
#include <kiln/ops/paged.h>
#include <kiln/ops/recurrent.h>
#include <kiln/ops/sampling.h>
#include <kiln/ops/sparse.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *device;
static kiln_ops *ops;

static int open_ops(void **state) { return kiln_device_open("cpu", &device) || kiln_ops_open(device, NULL, &ops); }

static int close_ops(void **state)
{
    kiln_ops_close(ops);
    kiln_device_close(device);
    return 0;
}

static void versions_agree(void **state)
{
    assert_string_equal(kiln_version(), KILN_VERSION);
    assert_string_equal(KILN_VERSION, KILN_PROJECT_VERSION);
}

// ---- sizes of argument structs

static kiln_mla_plan plan;
static kiln_paged_plan paged_plan;
static size_t bytes;

// `call`, of `args`: a struct of its size and one that says nothing get as far as what is missing; others are refused by name.
#define CHECK_SIZES(type, name, call)                                                                                  \
    do {                                                                                                               \
        _Static_assert(offsetof(type, struct_size) == 0, #type " begins with its size");                               \
        const size_t sizes[] = { sizeof(type), 0, sizeof(size_t), sizeof(type) - 1, sizeof(type) + 8, SIZE_MAX };      \
        for (int i = 0; i < 6; i++) {                                                                                  \
            type args = KILN_ARGS(type);                                                                               \
            assert_int_equal(args.struct_size, sizeof(type));                                                          \
            args.struct_size = sizes[i];                                                                               \
            assert_int_not_equal(call, KILN_OK);                                                                       \
            check_message(name, sizes[i], sizeof(type), i < 2);                                                        \
        }                                                                                                              \
    } while (0)

static void check_message(const char *name, size_t given, size_t known, bool fine)
{
    char expected[256];
    snprintf(expected, sizeof expected,
             "%s: 'struct_size' is %zu, expected %zu, or 0: the caller was built for another version "
             "than this library's, %s",
             name, given, known, kiln_version());
    if (fine) assert_null(strstr(kiln_error_message(), "struct_size"));
    else assert_string_equal(kiln_error_message(), expected);
}

#define CHECK_CALL(type, name) CHECK_SIZES(type, #name, name(ops, NULL, &args))
#define CHECK_WORKSPACE(type, name) CHECK_SIZES(type, #name, name(ops, &args, &bytes))

static void sizes_of_attention_arguments(void **state)
{
    CHECK_CALL(kiln_attention_args, kiln_attention_forward);
    CHECK_CALL(kiln_attention_varlen_args, kiln_attention_forward_varlen);
    CHECK_CALL(kiln_attention_qkvpacked_args, kiln_attention_forward_qkvpacked);
    CHECK_CALL(kiln_attention_kvpacked_args, kiln_attention_forward_kvpacked);
    CHECK_CALL(kiln_attention_backward_args, kiln_attention_backward);
    CHECK_CALL(kiln_attention_backward_varlen_args, kiln_attention_backward_varlen);
    CHECK_CALL(kiln_attention_decode_args, kiln_attention_decode);
    CHECK_CALL(kiln_masked_decode_args, kiln_masked_decode);
    CHECK_CALL(kiln_paged_attention_args, kiln_paged_attention);
    CHECK_SIZES(kiln_paged_plan_args, "kiln_paged_plan_make", kiln_paged_plan_make(ops, NULL, &args, &paged_plan));
    CHECK_CALL(kiln_paged_slots_args, kiln_paged_slots);
    CHECK_CALL(kiln_paged_append_args, kiln_paged_append);
    CHECK_CALL(kiln_block_sparse_args, kiln_block_sparse);
    CHECK_CALL(kiln_block_sparse_decode_args, kiln_block_sparse_decode);
    CHECK_CALL(kiln_block_mask_args, kiln_block_mask);
    CHECK_CALL(kiln_vertical_slash_estimate_args, kiln_vertical_slash_estimate);
    CHECK_CALL(kiln_vertical_slash_args, kiln_vertical_slash);
    CHECK_WORKSPACE(kiln_block_sparse_args, kiln_block_sparse_workspace_size);
    CHECK_WORKSPACE(kiln_block_sparse_decode_args, kiln_block_sparse_decode_workspace_size);
    CHECK_WORKSPACE(kiln_vertical_slash_estimate_args, kiln_vertical_slash_estimate_workspace_size);
    CHECK_WORKSPACE(kiln_vertical_slash_args, kiln_vertical_slash_workspace_size);
    CHECK_WORKSPACE(kiln_attention_args, kiln_attention_forward_workspace_size);
    CHECK_WORKSPACE(kiln_attention_backward_args, kiln_attention_backward_workspace_size);
    CHECK_WORKSPACE(kiln_attention_backward_varlen_args, kiln_attention_backward_varlen_workspace_size);
    CHECK_WORKSPACE(kiln_attention_decode_args, kiln_attention_decode_workspace_size);
    CHECK_WORKSPACE(kiln_masked_decode_args, kiln_masked_decode_workspace_size);
    CHECK_WORKSPACE(kiln_paged_attention_args, kiln_paged_attention_workspace_size);
    CHECK_WORKSPACE(kiln_paged_plan_args, kiln_paged_plan_size);
}

static void sizes_of_latent_arguments(void **state)
{
    CHECK_SIZES(kiln_mla_plan_args, "kiln_mla_plan_make", kiln_mla_plan_make(ops, NULL, &args, &plan));
    CHECK_CALL(kiln_mla_decode_args, kiln_mla_decode);
    CHECK_CALL(kiln_mla_decode_sparse_args, kiln_mla_decode_sparse);
    CHECK_CALL(kiln_mla_decode_contiguous_args, kiln_mla_decode_contiguous);
    CHECK_CALL(kiln_mla_slots_args, kiln_mla_slots);
    CHECK_CALL(kiln_mla_append_args, kiln_mla_append);
    CHECK_CALL(kiln_mla_quantize_args, kiln_mla_quantize);
    CHECK_CALL(kiln_mla_dequantize_args, kiln_mla_dequantize);
    CHECK_CALL(kiln_mla_prefill_sparse_args, kiln_mla_prefill_sparse);
    CHECK_CALL(kiln_indexer_logits_args, kiln_indexer_logits);
    CHECK_CALL(kiln_indexer_scores_args, kiln_indexer_scores);
    CHECK_CALL(kiln_clean_logits_args, kiln_clean_logits);
    CHECK_CALL(kiln_topk_select_args, kiln_topk_select);
    CHECK_CALL(kiln_indexed_attention_args, kiln_indexed_attention);
    CHECK_WORKSPACE(kiln_indexed_attention_args, kiln_indexed_attention_workspace_size);
    CHECK_CALL(kiln_indexed_attention_paged_args, kiln_indexed_attention_paged);
    CHECK_WORKSPACE(kiln_indexed_attention_paged_args, kiln_indexed_attention_paged_workspace_size);
    CHECK_CALL(kiln_index_append_args, kiln_index_append);
    CHECK_WORKSPACE(kiln_mla_decode_contiguous_args, kiln_mla_decode_contiguous_workspace_size);
    CHECK_WORKSPACE(kiln_mla_decode_args, kiln_mla_decode_workspace_size);
    CHECK_WORKSPACE(kiln_mla_decode_sparse_args, kiln_mla_decode_sparse_workspace_size);
}

static void sizes_of_product_arguments(void **state)
{
    CHECK_CALL(kiln_gemm_args, kiln_gemm);
    CHECK_WORKSPACE(kiln_gemm_args, kiln_gemm_workspace_size);
}

static void sizes_of_small_operators_arguments(void **state)
{
    CHECK_CALL(kiln_norm_args, kiln_rms_norm);
    CHECK_CALL(kiln_norm_args, kiln_layer_norm);
    CHECK_CALL(kiln_gated_norm_args, kiln_gated_norm);
    CHECK_CALL(kiln_gated_norm_backward_args, kiln_gated_norm_backward);
    CHECK_WORKSPACE(kiln_gated_norm_backward_args, kiln_gated_norm_backward_workspace_size);
    CHECK_CALL(kiln_rotary_embedding_args, kiln_rotary_embedding);
    CHECK_CALL(kiln_activate_args, kiln_activate);
    CHECK_CALL(kiln_activate_backward_args, kiln_activate_backward);
    CHECK_CALL(kiln_softmax_args, kiln_softmax);
    CHECK_CALL(kiln_cross_entropy_args, kiln_cross_entropy);
    CHECK_CALL(kiln_cross_entropy_backward_args, kiln_cross_entropy_backward);
    CHECK_CALL(kiln_embedding_args, kiln_embedding);
    CHECK_CALL(kiln_argmax_args, kiln_argmax);
    CHECK_CALL(kiln_cast_fp8_args, kiln_cast_fp8);
    CHECK_CALL(kiln_cast_int8_args, kiln_cast_int8);
    CHECK_CALL(kiln_hadamard_args, kiln_hadamard);
    CHECK_CALL(kiln_conv2d_args, kiln_conv2d);
}

static void sizes_of_recurrent_arguments(void **state)
{
    CHECK_CALL(kiln_gdn_args, kiln_gdn_forward);
    CHECK_CALL(kiln_gdn_step_args, kiln_gdn_step);
    CHECK_CALL(kiln_gdn_backward_args, kiln_gdn_backward);
    CHECK_CALL(kiln_gdn_gates_args, kiln_gdn_gates);
    CHECK_CALL(kiln_gdn_gates_backward_args, kiln_gdn_gates_backward);
    CHECK_WORKSPACE(kiln_gdn_gates_backward_args, kiln_gdn_gates_backward_workspace_size);
    CHECK_CALL(kiln_linear_attention_args, kiln_linear_attention_forward);
    CHECK_CALL(kiln_linear_attention_step_args, kiln_linear_attention_step);
    CHECK_CALL(kiln_mamba2_args, kiln_mamba2_forward);
    CHECK_CALL(kiln_mamba2_step_args, kiln_mamba2_step);
    CHECK_CALL(kiln_linear_attention_backward_args, kiln_linear_attention_backward);
    CHECK_CALL(kiln_mamba2_backward_args, kiln_mamba2_backward);
    CHECK_CALL(kiln_causal_conv_args, kiln_causal_conv);
    CHECK_CALL(kiln_causal_conv_step_args, kiln_causal_conv_step);
    CHECK_CALL(kiln_causal_conv_backward_args, kiln_causal_conv_backward);
    CHECK_WORKSPACE(kiln_gdn_args, kiln_gdn_forward_workspace_size);
    CHECK_WORKSPACE(kiln_gdn_backward_args, kiln_gdn_backward_workspace_size);
    CHECK_WORKSPACE(kiln_causal_conv_backward_args, kiln_causal_conv_backward_workspace_size);
    CHECK_WORKSPACE(kiln_mamba2_args, kiln_mamba2_forward_workspace_size);
    CHECK_WORKSPACE(kiln_linear_attention_args, kiln_linear_attention_forward_workspace_size);
    CHECK_WORKSPACE(kiln_linear_attention_backward_args, kiln_linear_attention_backward_workspace_size);
    CHECK_WORKSPACE(kiln_mamba2_backward_args, kiln_mamba2_backward_workspace_size);
}

static void sizes_of_expert_arguments(void **state)
{
    CHECK_CALL(kiln_moe_route_args, kiln_moe_route);
    CHECK_CALL(kiln_moe_permute_args, kiln_moe_permute);
    CHECK_CALL(kiln_moe_unpermute_args, kiln_moe_unpermute);
    CHECK_CALL(kiln_grouped_gemm_args, kiln_grouped_gemm);
    CHECK_CALL(kiln_grouped_gemm_weights_args, kiln_grouped_gemm_weights);
    CHECK_CALL(kiln_grouped_mxfp4_args, kiln_grouped_mxfp4);
    CHECK_CALL(kiln_sparse24_pack_args, kiln_sparse24_pack);
    CHECK_CALL(kiln_moe_args, kiln_moe);
    CHECK_CALL(kiln_block_sparse_gemm_args, kiln_block_sparse_gemm);
    CHECK_CALL(kiln_topk_args, kiln_topk);
    CHECK_CALL(kiln_sample_args, kiln_sample);
    CHECK_WORKSPACE(kiln_grouped_gemm_args, kiln_grouped_gemm_workspace_size);
    CHECK_WORKSPACE(kiln_grouped_mxfp4_args, kiln_grouped_mxfp4_workspace_size);
    CHECK_WORKSPACE(kiln_moe_args, kiln_moe_workspace_size);
    CHECK_WORKSPACE(kiln_topk_args, kiln_topk_workspace_size);
}

static void sizes_of_native_sparse_arguments(void **state)
{
    CHECK_CALL(kiln_nsa_args, kiln_nsa_forward);
    CHECK_CALL(kiln_nsa_choose_args, kiln_nsa_choose);
    CHECK_CALL(kiln_nsa_compressed_backward_args, kiln_nsa_compressed_backward);
    CHECK_CALL(kiln_nsa_selected_args, kiln_nsa_selected_forward);
    CHECK_CALL(kiln_nsa_selected_backward_args, kiln_nsa_selected_backward);
    CHECK_CALL(kiln_nsa_combine_args, kiln_nsa_combine);
    CHECK_CALL(kiln_nsa_combine_backward_args, kiln_nsa_combine_backward);
    CHECK_CALL(kiln_nsa_decode_args, kiln_nsa_decode);
    CHECK_CALL(kiln_nsa_decode_pool_args, kiln_nsa_decode_pool);
    CHECK_CALL(kiln_nsa_decode_choose_args, kiln_nsa_decode_choose);
    CHECK_WORKSPACE(kiln_nsa_args, kiln_nsa_forward_workspace_size);
    CHECK_WORKSPACE(kiln_nsa_choose_args, kiln_nsa_choose_workspace_size);
    CHECK_WORKSPACE(kiln_nsa_compressed_backward_args, kiln_nsa_compressed_backward_workspace_size);
    CHECK_WORKSPACE(kiln_nsa_selected_args, kiln_nsa_selected_forward_workspace_size);
    CHECK_WORKSPACE(kiln_nsa_selected_backward_args, kiln_nsa_selected_backward_workspace_size);
    CHECK_WORKSPACE(kiln_nsa_decode_args, kiln_nsa_decode_workspace_size);
}

static void sizes_of_build_options(void **state)
{
    kiln_program *program;
    kiln_kernel *kernel;
    kiln_ops *more;
    assert_int_equal(kiln_program_load_text("empty", "kernel k(int n) { grid (); }", &program), KILN_OK);
    kiln_build_options options = KILN_ARGS(kiln_build_options);
    options.arch = 75; // refused, but later
    assert_int_equal(kiln_kernel_build(NULL, program, "k", NULL, &options, &kernel), KILN_UNSUPPORTED);
    options.struct_size = 8;
    assert_int_equal(kiln_kernel_build(NULL, program, "k", NULL, &options, &kernel), KILN_BAD_ARGUMENT);
    check_message("kiln_build_options", 8, sizeof options, false);
    assert_int_equal(kiln_ops_open(device, &options, &more), KILN_BAD_ARGUMENT);
    check_message("kiln_build_options", 8, sizeof options, false);
    options = KILN_ARGS(kiln_build_options);
    assert_int_equal(kiln_ops_open(device, &options, &more), KILN_OK);
    kiln_ops_close(more);
    assert_int_equal(kiln_kernel_build(device, program, "k", NULL, NULL, &kernel), KILN_OK);
    kiln_parameter parameter = { .struct_size = 8 };
    assert_int_equal(kiln_kernel_parameter(kernel, 0, &parameter), KILN_BAD_ARGUMENT);
    check_message("kiln_kernel_parameter", 8, sizeof parameter, false);
    kiln_kernel_free(kernel);
    kiln_program_free(program);
}

// ---- DLPack 1.x

typedef struct Versioned { // as the specification lays it out
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct Versioned *);
    uint64_t flags;
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Versioned;

enum { READ_ONLY = 1, COPIED = 2, PADDED = 4 };

static void versioned_there_and_back(void **state)
{
    static float data[24];
    for (int type = KILN_F64; type <= KILN_BOOL; type++) {
        const kiln_tensor t = { .data = data, .type = (kiln_type)type, .rank = 3, .shape = { 2, 3, 1 } };
        kiln_tensor back;
        void *managed = NULL;
        uint64_t flags = 77;
        if (type == KILN_TF32) {
            assert_int_equal(kiln_tensor_to_dlpack_versioned(&t, 0, &managed), KILN_BAD_TYPE);
            continue;
        }
        assert_int_equal(kiln_tensor_to_dlpack_versioned(&t, READ_ONLY | COPIED, &managed), KILN_OK);
        const Versioned *const m = managed;
        assert_int_equal(m->major, 1);
        assert_int_equal(m->flags, READ_ONLY | COPIED);
        assert_ptr_equal(m->data, data);
        assert_int_equal(m->device_type, 1);
        assert_int_equal(m->ndim, 3);
        assert_int_equal(m->shape[1], 3);
        assert_int_equal(m->strides[0], 3);
        assert_int_equal(m->byte_offset, 0);
        assert_int_equal(kiln_tensor_from_dlpack_versioned(managed, &back, &flags), KILN_OK);
        assert_int_equal(flags, READ_ONLY | COPIED);
        assert_int_equal(back.type, type);
        assert_int_equal(back.shape[1], 3);
        assert_ptr_equal(back.data, data);
        m->deleter(managed);
    }
}

static void versions_and_flags_of_dlpack(void **state)
{
    static char data[64];
    int64_t shape[] = { 4 };
    Versioned m = { .major = 1,
                    .minor = 9,
                    .data = data,
                    .device_type = 1,
                    .ndim = 1,
                    .code = 2,
                    .bits = 32,
                    .lanes = 1,
                    .shape = shape,
                    .byte_offset = 16 };
    kiln_tensor t;
    uint64_t flags;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, NULL), KILN_OK);
    assert_ptr_equal(t.data, data + 16);
    assert_false(t.has_strides);
    m.flags = COPIED;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, NULL), KILN_OK);
    m.flags = READ_ONLY;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, NULL), KILN_BAD_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "may only be read"));
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, &flags), KILN_OK);
    assert_int_equal(flags, READ_ONLY);
    m.flags = PADDED; // means something below 8 bits only
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, &flags), KILN_OK);
    assert_int_equal(flags, 0);
    m.code = 0, m.bits = 4;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, &flags), KILN_BAD_TYPE);
    assert_non_null(strstr(kiln_error_message(), "4 bits take a byte each"));
    m.flags = 0, m.major = 2, m.minor = 3;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, &flags), KILN_UNSUPPORTED);
    assert_non_null(
        strstr(kiln_error_message(), "kiln_tensor_from_dlpack_versioned: the tensor is of DLPack 2.3, expected 1.x"));
    m.major = 1, m.ndim = 9;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&m, &t, &flags), KILN_BAD_SHAPE);
    assert_non_null(strstr(kiln_error_message(), "kiln_tensor_from_dlpack_versioned: rank 9"));
}

static void dlpack_needs_its_arguments(void **state)
{
    const kiln_tensor t = { .type = KILN_F32, .rank = 1, .shape = { 0 } };
    kiln_tensor back;
    void *managed = NULL;
    assert_int_equal(kiln_tensor_from_dlpack_versioned(NULL, &back, NULL), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_tensor_from_dlpack_versioned(&t, NULL, NULL), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_tensor_to_dlpack_versioned(NULL, 0, &managed), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_tensor_to_dlpack_versioned(&t, 0, NULL), KILN_BAD_ARGUMENT);
    assert_int_equal(kiln_tensor_to_dlpack_versioned(&t, PADDED, &managed), KILN_BAD_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "'flags' is 0x4"));
    assert_null(managed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(sizes_of_attention_arguments),
        cmocka_unit_test(sizes_of_latent_arguments),
        cmocka_unit_test(sizes_of_product_arguments),
        cmocka_unit_test(sizes_of_small_operators_arguments),
        cmocka_unit_test(sizes_of_recurrent_arguments),
        cmocka_unit_test(sizes_of_native_sparse_arguments),
        cmocka_unit_test(sizes_of_expert_arguments),
        cmocka_unit_test(sizes_of_build_options),
        cmocka_unit_test(versioned_there_and_back),
        cmocka_unit_test(versions_and_flags_of_dlpack),
        cmocka_unit_test(dlpack_needs_its_arguments),
    };
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
