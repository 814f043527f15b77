/* A library that is loaded and does nothing: what a shim that binds nothing comes to. */
static int nothing;
int *silent_marker(void) { return &nothing; }
