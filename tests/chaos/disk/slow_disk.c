/* File calls that take as long as an attack says, and a list of those of the main thread.

   SLOW_DISK names a file with lines "CALL SUBSTRING MILLISECONDS": a call (write, read, sync, name)
   on a path that has the substring takes so much longer. It is read at every call, and may be missing.
   LOOP_CALLS names a file that gets a line "CALL PATH" for every call of the main thread, which runs
   the server's event loop, while SLOW_DISK exists. Reads from the page cache (RWF_NOWAIT) find
   nothing meanwhile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void told(const char *call, const char *path)
{
    const char *slow = getenv("SLOW_DISK"), *calls = getenv("LOOP_CALLS");
    char rules[1024], line[700], kind[32], part[256];
    long ms, at;
    if (!slow || path[0] == 0 || strstr(path, "/proc/") == path || !strstr(path, "data"))
        return;
    at = syscall(SYS_openat, AT_FDCWD, slow, O_RDONLY | O_CLOEXEC, 0);
    if (at < 0)
        return;
    long size = syscall(SYS_read, (int)at, rules, sizeof rules - 1);
    syscall(SYS_close, (int)at);
    rules[size > 0 ? size : 0] = 0;
    if (calls && syscall(SYS_gettid) == getpid()) {
        int length = snprintf(line, sizeof line, "%s %s\n", call, path);
        at = syscall(SYS_openat, AT_FDCWD, calls, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (at >= 0) {
            syscall(SYS_write, (int)at, line, (size_t)length);
            syscall(SYS_close, (int)at);
        }
    }
    char *rest = 0;
    for (char *rule = strtok_r(rules, "\n", &rest); rule; rule = strtok_r(0, "\n", &rest))
        if (sscanf(rule, "%31s %255s %ld", kind, part, &ms) == 3 && !strcmp(kind, call) &&
            strstr(path, part)) {
            struct timespec nap = {ms / 1000, (ms % 1000) * 1000000L};
            nanosleep(&nap, 0);
        }
}

static void told_of(const char *call, int file)
{
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    if (path[0] == '/')
        told(call, path);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define WRITES(name) ssize_t name(int file, const void *data, size_t size, off_t at) \
    { REAL(name); told_of("write", file); return real(file, data, size, at); }
#define READS(name) ssize_t name(int file, void *data, size_t size, off_t at) \
    { REAL(name); told_of("read", file); return real(file, data, size, at); }
#define READS_PARTS(name) ssize_t name(int file, const struct iovec *to, int count, off_t at) \
    { REAL(name); told_of("read", file); return real(file, to, count, at); }
#define READS_CACHED(name) ssize_t name(int file, const struct iovec *to, int count, off_t at, int how) \
    { REAL(name); \
      if (!(how & RWF_NOWAIT)) told_of("read", file); \
      else if (getenv("SLOW_DISK") && !access(getenv("SLOW_DISK"), F_OK)) { errno = EAGAIN; return -1; } \
      return real(file, to, count, at, how); }
#define SYNCS(name) int name(int file) { REAL(name); told_of("sync", file); return real(file); }
#define CUTS(name) int name(int file, off_t size) \
    { REAL(name); told_of("write", file); return real(file, size); }
#define OPENS(name) int name(const char *path, int flags, ...) \
    { REAL(name); va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
      told("name", path); return real(path, flags, mode); }
#define NAMES(name) int name(const char *path) { REAL(name); told("name", path); return real(path); }
#define MOVES(name) int name(const char *path, const char *to) \
    { REAL(name); told("name", to); return real(path, to); }
WRITES(pwrite) WRITES(pwrite64) READS(pread) READS(pread64) READS_PARTS(preadv) READS_PARTS(preadv64)
READS_CACHED(preadv2) READS_CACHED(preadv64v2) SYNCS(fsync) SYNCS(fdatasync)
CUTS(ftruncate) CUTS(ftruncate64) OPENS(open) OPENS(open64)
NAMES(unlink) NAMES(rmdir) MOVES(rename) MOVES(link)
int mkdir(const char *path, mode_t mode) { REAL(mkdir); told("name", path); return real(path, mode); }
