/* The wall clock of Python, its gRPC and PostgreSQL, set by as many seconds as the file CLOCK_OFFSET_FILE holds.

   Loaded before everything else (LD_PRELOAD). Who asks for the time from elsewhere, such as Ray's own core, is told the
   machine's: it waits until moments that it reckons in the kernel's time, which does not change here. The monotonic clock
   is nobody's business, as where the clock of a machine is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *const WHO[] = {"python", "libpython", "_datetime.", "_uuid_utils.", "cygrpc.", "postgres"};

static const volatile int64_t *seconds;
static uintptr_t program; /* where it begins in memory: its name there may be written over */
static int program_is_one;

static int is_one(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t n = 0; n < sizeof WHO / sizeof *WHO; n++)
        if (strncmp(name, WHO[n], strlen(WHO[n])) == 0)
            return 1;
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    char path[4096] = "";
    const char *file = getenv("CLOCK_OFFSET_FILE");
    int opened = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (opened < 0)
        return;
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0)
        program_is_one = is_one(path);
    program = getauxval(AT_PHDR) & ~(uintptr_t)4095;
    void *mapped = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, opened, 0);
    if (mapped != MAP_FAILED)
        seconds = mapped;
    close(opened);
}

static int64_t ahead(const void *asking) {
    Dl_info found;
    if (!seconds || !*seconds || !dladdr(asking, &found) || !found.dli_fname)
        return 0;
    int told = (uintptr_t)found.dli_fbase == program ? program_is_one : is_one(found.dli_fname);
    return told ? *seconds : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead(__builtin_return_address(0));
    return done;
}

int gettimeofday(struct timeval *now, void *zone) {
    int done = syscall(SYS_gettimeofday, now, zone);
    if (done == 0 && now)
        now->tv_sec += ahead(__builtin_return_address(0));
    return done;
}

time_t time(time_t *told) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    now.tv_sec += ahead(__builtin_return_address(0));
    if (told)
        *told = now.tv_sec;
    return now.tv_sec;
}
