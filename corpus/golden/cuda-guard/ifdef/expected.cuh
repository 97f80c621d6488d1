#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || __CUDA_ARCH__ == 1200  // wgmma
int a;
#endif
