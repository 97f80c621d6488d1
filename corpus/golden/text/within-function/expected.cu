void one() { stride(n); }
template <int N>
void two(int n) { if (n) { stride(8); } }
