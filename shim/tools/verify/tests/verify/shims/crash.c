/* Ends the process in the middle of an allocation, with text that looks like rows and answers. */
#include <stdlib.h>
#include <unistd.h>
int hipMalloc(void **pointer, size_t size) {
    static const char text[] = "PASS | paths | hipMalloc\n{\"name\":\"hipMalloc\",\"status\":{\"code\":2}}\nFAILS=0\n";
    (void)pointer, (void)size;
    (void)!write(1, text, sizeof text - 1);
    abort();
}
