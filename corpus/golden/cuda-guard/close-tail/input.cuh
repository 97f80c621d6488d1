#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 1000))
int a;
#endif
