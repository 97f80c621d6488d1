#if !(defined(__CUDA_ARCH_FEAT_SM120_ALL) && __CUDA_ARCH__ != 1200)
int a;
#endif
