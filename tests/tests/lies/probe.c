/* What the loader makes of a file: opens argv[1] with all symbols bound, looks each of the other arguments (NAME or NAME@NODE) up in it, and
   prints the addresses as the file has them, then the objects that are loaded. Exit status 3: the loader refuses the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    alarm(3); /* A hash chain that is a ring keeps the loader busy for ever. */
    struct link_map *map = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!map) {
        puts(dlerror());
        return 3;
    }
    for (int i = 2; i < count; i++) {
        printf("symbol %s ", arguments[i]);
        char *node = strchr(arguments[i], '@');
        if (node)
            *node++ = 0;
        char *found = node ? dlvsym(map, arguments[i], node) : dlsym(map, arguments[i]);
        if (found)
            printf("%lx\n", (unsigned long)found - map->l_addr);
        else
            puts("none");
    }
    for (struct link_map *each = map; each; each = each->l_next)
        printf("object %s\n", each->l_name);
    fflush(stdout);
    _exit(0);
}
