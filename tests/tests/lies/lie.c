/* A library whose fields are made to lie, one at a time. */
extern int need_data, need_call(int), need_late(void);
extern int absent(void) __attribute__((weak));
int lie_data[4] = {1, 2, 3, 4};
int *lie_pointer = &need_data;
static int inner;
static int *volatile here[2] = {&inner, &inner};
int lie_one(int x) { return need_call(x) + need_data + *here[x & 1] + (absent ? absent() : 0); }
int lie_two(void) { return need_late(); }
int lie_new(int x) { return x; }
int lie_old(int x) { return -x; }
__asm__(".symver lie_old,lie_call@LIE_1");
__asm__(".symver lie_new,lie_call@@LIE_2");
