#if defined(__CUDA_ARCH__)
int a;
#endif
