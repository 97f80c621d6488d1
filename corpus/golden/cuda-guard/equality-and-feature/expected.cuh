#if defined(USE_TMA) && (__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1200) && (defined(__CUDA_ARCH_FEAT_SM90_ALL) || __CUDA_ARCH__ == 1200)
int a;
#endif
