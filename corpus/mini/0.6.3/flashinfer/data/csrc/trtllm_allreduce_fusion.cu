__global__ void fusion(float* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  cudaGridDependencySynchronize();
#endif
  out[threadIdx.x] += 1.0f;
}
