#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ != 1200
int a;
#endif
