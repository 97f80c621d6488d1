void scaled() {
}
