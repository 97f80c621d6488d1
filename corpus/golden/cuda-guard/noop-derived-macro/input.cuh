#ifdef FAST_PATH
int a;
#endif
