/* Times pairs of hipMalloc and hipFree: cost LIBRARY THREADS PAIRS SIZE. Prints nanoseconds of processor time for each pair, of the slowest
 * thread. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int (*take)(void **, size_t), (*give)(void *);
static long pairs;
static size_t size;
static pthread_barrier_t start;

static void *work(void *given) {
    double *nanoseconds = given;
    void *pointer = NULL;
    struct timespec from, to;
    for (long i = 0; i < pairs / 10; i++)
        if (take(&pointer, size) || give(pointer)) exit(1);
    pthread_barrier_wait(&start);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (long i = 0; i < pairs; i++)
        if (take(&pointer, size) || give(pointer)) exit(1);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    *nanoseconds = ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / pairs;
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    take = (int (*)(void **, size_t))dlsym(library, "hipMalloc");
    give = (int (*)(void *))dlsym(library, "hipFree");
    int threads = atoi(arguments[2]);
    pairs = atol(arguments[3]);
    size = strtoul(arguments[4], NULL, 10);
    pthread_t all[64];
    double each[64], worst = 0;
    if (!take || !give || threads < 1 || threads > 64) return 2;
    pthread_barrier_init(&start, NULL, threads);
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, &each[i]);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL), worst = each[i] > worst ? each[i] : worst;
    printf("%.0f\n", worst);
    fflush(stdout);
    quick_exit(0);
}
