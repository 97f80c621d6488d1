#if __CUDA_ARCH__ == 800
int a;
#elif __CUDA_ARCH__ == 900  // second arm
int b;
#else
int c;
#endif
