#if __CUDA_ARCH__ >= 1000 || defined(FORCE)
int a;
#endif
