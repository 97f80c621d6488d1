#if __CUDA_ARCH__ < LIMIT
int a;
#endif
