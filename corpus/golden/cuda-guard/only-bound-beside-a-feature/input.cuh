__global__ void body() {
#if __CUDA_ARCH__ < 1200&&defined(FEATURE)
  work();
#endif
}
