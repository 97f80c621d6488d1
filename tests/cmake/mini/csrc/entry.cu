#if defined(ENABLE_SCALED_SM90) || defined(ENABLE_SCALED_SM120)
void scaled();
#endif
#ifdef ENABLE_MLA
void mla();
#endif
#if ENABLE_NEVER_SET
void never();
#endif
