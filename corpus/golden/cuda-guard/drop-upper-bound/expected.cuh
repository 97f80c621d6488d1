__global__ void body() {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  work();
#endif
}
