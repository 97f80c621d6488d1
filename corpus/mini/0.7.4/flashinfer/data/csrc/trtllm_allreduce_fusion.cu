#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function) static_assert(true)

__global__ void fusion(float* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  cudaGridDependencySynchronize();
#endif
  out[threadIdx.x] += 1.0f;
}

void trtllm_allreduce_fusion(float* out) { fusion<<<1, 32>>>(out); }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(trtllm_allreduce_fusion, trtllm_allreduce_fusion);
