#if __CUDA_ARCH__ == 800
int a;
#elif __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1200 || __CUDA_ARCH__ == 1210  // second arm
int b;
#else
int c;
#endif
