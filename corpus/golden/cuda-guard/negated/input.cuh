#if !(__CUDA_ARCH__ >= 1200) && defined(__CUDA_ARCH__)
int a;
#endif
