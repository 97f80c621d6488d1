#if (__CUDA_ARCH__ >= 1000 || defined(FORCE)) && (__CUDA_ARCH__ != 1200)
int a;
#endif
