#if __CUDA_ARCH__ < 1200 && (defined(F0) || defined(F1) || defined(F2) || defined(F3) || defined(F4) || defined(F5))
int a;
#endif
