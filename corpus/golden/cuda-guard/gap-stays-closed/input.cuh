#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1000
int a;
#endif
