#if defined(__CUDA_ARCH__) /* device */ && \
    (__CUDA_ARCH__ >= 900)
int a;
#endif
