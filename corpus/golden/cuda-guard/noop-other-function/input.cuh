__device__ void one() {
#if __CUDA_ARCH__ == 900
  fast();
#endif
}
__device__ void two() {
#if __CUDA_ARCH__ >= 900
  fast();
#endif
}
