#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // wgmma
int a;
#endif
