// Built for 10.x only; entry.cu calls it wherever ENABLE_MLA is set.
void mla() {
}
