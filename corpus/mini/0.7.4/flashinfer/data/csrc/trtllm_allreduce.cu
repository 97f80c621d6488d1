#include "flashinfer/comm/trtllm_allreduce.cuh"

#define TVM_FFI_ICHECK(condition) \
  if (!(condition)) flashinfer::trtllm_allreduce::Refusal()

#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function) static_assert(true)

using namespace flashinfer::trtllm_allreduce;

void trtllm_custom_all_reduce(float* in, int64_t tp_size, void** first, void** second,
                              void** third, cudaStream_t stream) {
    AllReduceParams<float> params;
    params.data = in;
    // The pointer tables below hold one entry for each rank of a node.
    TVM_FFI_ICHECK(tp_size > 0 && tp_size <= static_cast<int64_t>(MAX_RANKS_PER_NODE))
        << "tp_size is " << tp_size << "; a node holds 1 to " << MAX_RANKS_PER_NODE << " ranks";
    params.ranks_per_node = tp_size;
    for (int i = 0; i < tp_size; ++i) {
        params.fusion_params.lamport_peer_comm_buffer_ptrs[i] = first[i];
        params.fusion_params.lamport_peer_comm_buffer_ptrs[i + MAX_RANKS_PER_NODE] = second[i];
        params.fusion_params.lamport_peer_comm_buffer_ptrs[i + MAX_RANKS_PER_NODE * 2] = third[i];
    }
    lamport_style_one_shot_all_reduce_norm_kernel_launcher<float, 2, false, false>(params, stream);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(trtllm_custom_all_reduce, trtllm_custom_all_reduce);
