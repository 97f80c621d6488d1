__device__ void wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ > 899 && __CUDA_ARCH__ <= 1199
  pause();
#endif
}
