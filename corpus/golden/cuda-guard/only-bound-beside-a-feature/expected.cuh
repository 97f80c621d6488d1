__global__ void body() {
#if (__CUDA_ARCH__ < 1200 || __CUDA_ARCH__ == 1200 || __CUDA_ARCH__ == 1210)&&defined(FEATURE)
  work();
#endif
}
