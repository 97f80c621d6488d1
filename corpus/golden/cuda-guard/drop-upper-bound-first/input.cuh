#if 1200 > __CUDA_ARCH__ && __CUDA_ARCH__ >= 900 && defined(__CUDA_ARCH__)
int a;
#endif
