#if __CUDA_ARCH__ >= 900 && (__CUDA_ARCH__ < 1000 || __CUDA_ARCH__ == 1200) || !defined(__CUDA_ARCH__)
int a;
#endif
