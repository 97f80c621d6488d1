#ifndef __CUDA_ARCH_FEAT_SM120_ALL
int a;
#endif
