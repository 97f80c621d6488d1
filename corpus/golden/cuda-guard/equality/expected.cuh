#if __CUDA_ARCH__ == 1200 || __CUDA_ARCH__ == 1210
int a;
#else
#error "for 12.0 only"
#endif
