/* What the library of the lies imports from. */
int need_data = 1;
int need_call(int x) { return x + need_data; }
int need_late(void) { return 2; }
