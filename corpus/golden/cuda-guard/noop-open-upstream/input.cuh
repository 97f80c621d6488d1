__device__ void wait() {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))
  pause();
#endif
}
