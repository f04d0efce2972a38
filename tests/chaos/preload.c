/* A disk that is slow, or that does not answer, for one process: a library for LD_PRELOAD that waits in front of
 * calls of the C library about files below a folder, and then makes the call. `preload.py` beside it builds it.
 *
 *   GK_SLOW=RULE[;RULE...]   a RULE is FUNCTIONS:PREFIX:MILLISECONDS, such as fsync,fdatasync:/data/journals:100
 *       FUNCTIONS      names with commas between them, out of NAMES below, or * for all of them. A name stands for
 *                      its variants: pwrite for pwrite64, pwritev and pwritev64, open for openat and open64.
 *       PREFIX         how the absolute path of the file begins, byte by byte; of a rename or link, of either name.
 *       MILLISECONDS   how long each call waits; 86400000 for one that does not come back.
 *     The first rule that fits counts. Reads from the page cache alone (RWF_NOWAIT) find nothing where one fits.
 *   GK_SLOW_FLAG=FILE        the rules act only while FILE exists; looked at before each call, and again every
 *                            10 ms of a wait, which ends when FILE is removed. Without it they act all the time.
 *   GK_SLOW_SEEN=FILE        each call that waits appends "THREAD FUNCTION PATH\n" to FILE, before it waits; THREAD
 *                            is the kernel's id, which of the main thread is that of the process.
 *
 * Child processes inherit all of it. A call is not made later than the process ends: a wait does not hold up _exit.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

static const char *const NAMES[] = {"fsync", "fdatasync", "syncfs",   "read", "pread",  "write",  "pwrite",
                                    "open",  "rename",    "ftruncate", "link", "unlink", "mkdir", "sendfile"};
#define COUNT (sizeof NAMES / sizeof *NAMES)
#define RULES 8
#define STEP_MS 10

static struct {
    unsigned functions;
    char prefix[PATH_MAX];
    long ms;
} rules[RULES];
static int rule_count;
static const char *flag;
static int seen = -1;

static unsigned bit(const char *name, size_t length) {
    for (unsigned i = 0; i < COUNT; i++)
        if (strlen(NAMES[i]) == length && !memcmp(NAMES[i], name, length)) return 1u << i;
    return length == 1 && *name == '*' ? ~0u : 0;
}

static void refuse(const char *rule) {
    fprintf(stderr, "preload.c: GK_SLOW has no meaning: %s\n", rule);
    _exit(127);
}

__attribute__((constructor)) static void configure(void) {
    const char *said = getenv("GK_SLOW"), *log = getenv("GK_SLOW_SEEN");
    flag = getenv("GK_SLOW_FLAG");
    if (log) seen = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (!said) return;
    static char text[RULES * PATH_MAX], *rest, *rule = text;
    snprintf(text, sizeof text, "%s", said);
    for (rule = strtok_r(text, ";", &rest); rule; rule = strtok_r(NULL, ";", &rest)) {
        char *path = strchr(rule, ':'), *ms = strrchr(rule, ':'), *end;
        if (rule_count == RULES || !path || path == ms || ms - path > PATH_MAX) refuse(rule);
        unsigned functions = 0;
        for (char *name = rule; name < path;) {
            size_t length = strcspn(name, ",:");
            if (!bit(name, length)) refuse(rule);
            functions |= bit(name, length);
            name += length + 1;
        }
        memcpy(rules[rule_count].prefix, path + 1, ms - path - 1);
        rules[rule_count].ms = strtol(ms + 1, &end, 10);
        if (end == ms + 1 || *end) refuse(rule);
        rules[rule_count++].functions = functions;
    }
}

static int is_on(void) { return !flag || syscall(SYS_faccessat, AT_FDCWD, flag, F_OK) == 0; }

static void wait_ms(long ms) {
    struct timespec end, now;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000, end.tv_nsec += ms % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000L) end.tv_sec++, end.tv_nsec -= 1000000000L;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long left = (end.tv_sec - now.tv_sec) * 1000000L + (end.tv_nsec - now.tv_nsec) / 1000;
        if (left <= 0 || !is_on()) return;
        struct timespec nap = {0, (left < STEP_MS * 1000 ? left : STEP_MS * 1000) * 1000L};
        nanosleep(&nap, NULL);
    }
}

/* The number of the first rule for this call, from 1 on; 0 if there is none. `path` is absolute. */
static int rule_of(const char *name, const char *path) {
    unsigned function = bit(name, strlen(name));
    for (int i = 0; i < rule_count; i++)
        if (rules[i].functions & function && !strncmp(path, rules[i].prefix, strlen(rules[i].prefix))) return i + 1;
    return 0;
}

/* Wait as the first rule for this call says; 0 if there is none. */
static int at_path(const char *name, const char *path) {
    int rule = rule_of(name, path);
    if (!rule || !is_on()) return rule;
    if (seen >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", (long)syscall(SYS_gettid), name, path);
        if (syscall(SYS_write, seen, line, length) != length) _exit(127);
    }
    wait_ms(rules[rule - 1].ms);
    return rule;
}

static void path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

static void at_fd(const char *name, int fd) {
    char path[PATH_MAX];
    if (!rule_count) return;
    path_of(fd, path);
    at_path(name, path);
}

/* `folder` is a file descriptor or AT_FDCWD, `given` a path that may be relative to it. */
static int at_name(const char *name, int folder, const char *given) {
    char path[PATH_MAX], full[2 * PATH_MAX];
    if (!rule_count || !given) return 0;
    if (*given == '/') return at_path(name, given);
    if (folder != AT_FDCWD) path_of(folder, path);
    else if (!getcwd(path, sizeof path)) return 0;
    snprintf(full, sizeof full, "%s/%s", path, given);
    return at_path(name, full);
}

#define ON_FD(result, function, name, parameters, arguments)          \
    result function parameters {                                      \
        static result(*real) parameters;                              \
        if (!real) real = dlsym(RTLD_NEXT, #function);                \
        at_fd(name, fd);                                              \
        return real arguments;                                        \
    }
ON_FD(int, fsync, "fsync", (int fd), (fd))
ON_FD(int, fdatasync, "fdatasync", (int fd), (fd))
ON_FD(int, syncfs, "syncfs", (int fd), (fd))
ON_FD(ssize_t, read, "read", (int fd, void *to, size_t n), (fd, to, n))
ON_FD(ssize_t, readv, "read", (int fd, const struct iovec *to, int n), (fd, to, n))
ON_FD(ssize_t, pread, "pread", (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
ON_FD(ssize_t, pread64, "pread", (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
ON_FD(ssize_t, preadv, "pread", (int fd, const struct iovec *to, int n, off_t at), (fd, to, n, at))
ON_FD(ssize_t, preadv64, "pread", (int fd, const struct iovec *to, int n, off64_t at), (fd, to, n, at))

/* A read from the page cache only (RWF_NOWAIT) waits for no disk: where a rule acts, it finds nothing. */
static int is_cold(int fd) {
    char path[PATH_MAX];
    if (!rule_count) return 0;
    path_of(fd, path);
    return rule_of("pread", path) && is_on();
}

#define CACHED(function, offset)                                                          \
    ssize_t function(int fd, const struct iovec *to, int n, offset at, int how) {         \
        static ssize_t (*real)(int, const struct iovec *, int, offset, int);              \
        if (!real) real = dlsym(RTLD_NEXT, #function);                                    \
        if (!(how & RWF_NOWAIT)) at_fd("pread", fd);                                      \
        else if (is_cold(fd)) return errno = EAGAIN, -1;                                  \
        return real(fd, to, n, at, how);                                                  \
    }
CACHED(preadv2, off_t)
CACHED(preadv64v2, off64_t)
ON_FD(ssize_t, write, "write", (int fd, const void *from, size_t n), (fd, from, n))
ON_FD(ssize_t, writev, "write", (int fd, const struct iovec *from, int n), (fd, from, n))
ON_FD(ssize_t, pwrite, "pwrite", (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
ON_FD(ssize_t, pwrite64, "pwrite", (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
ON_FD(ssize_t, pwritev, "pwrite", (int fd, const struct iovec *from, int n, off_t at), (fd, from, n, at))
ON_FD(ssize_t, pwritev64, "pwrite", (int fd, const struct iovec *from, int n, off64_t at), (fd, from, n, at))
ON_FD(int, ftruncate, "ftruncate", (int fd, off_t n), (fd, n))
ON_FD(int, ftruncate64, "ftruncate", (int fd, off64_t n), (fd, n))
ON_FD(ssize_t, sendfile, "sendfile", (int to, int fd, off_t *at, size_t n), (to, fd, at, n))
ON_FD(ssize_t, sendfile64, "sendfile", (int to, int fd, off64_t *at, size_t n), (to, fd, at, n))

#define OPEN(function)                                       \
    int function(const char *path, int flags, ...) {         \
        static int (*real)(const char *, int, ...);          \
        if (!real) real = dlsym(RTLD_NEXT, #function);       \
        va_list more;                                        \
        va_start(more, flags);                               \
        mode_t mode = va_arg(more, mode_t);                  \
        va_end(more);                                        \
        at_name("open", AT_FDCWD, path);                     \
        return real(path, flags, mode);                      \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(function)                                             \
    int function(int folder, const char *path, int flags, ...) {     \
        static int (*real)(int, const char *, int, ...);             \
        if (!real) real = dlsym(RTLD_NEXT, #function);               \
        va_list more;                                                \
        va_start(more, flags);                                       \
        mode_t mode = va_arg(more, mode_t);                          \
        va_end(more);                                                \
        at_name("open", folder, path);                               \
        return real(folder, path, flags, mode);                      \
    }
OPENAT(openat)
OPENAT(openat64)

#define ON_NAME(function, name, parameters, arguments, ...)  \
    int function parameters {                                \
        static int(*real) parameters;                        \
        if (!real) real = dlsym(RTLD_NEXT, #function);       \
        __VA_ARGS__;                                         \
        return real arguments;                               \
    }
ON_NAME(unlink, "unlink", (const char *path), (path), at_name("unlink", AT_FDCWD, path))
ON_NAME(unlinkat, "unlink", (int folder, const char *path, int how), (folder, path, how),
        at_name("unlink", folder, path))
ON_NAME(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), at_name("mkdir", AT_FDCWD, path))
/* The new name counts first; the old one where no rule is for the new one. */
#define PAIR(name, from, old, to, new) (void)(at_name(name, to, new) || at_name(name, from, old))
ON_NAME(rename, "rename", (const char *old, const char *new), (old, new),
        PAIR("rename", AT_FDCWD, old, AT_FDCWD, new))
ON_NAME(renameat, "rename", (int from, const char *old, int to, const char *new), (from, old, to, new),
        PAIR("rename", from, old, to, new))
ON_NAME(link, "link", (const char *old, const char *new), (old, new), PAIR("link", AT_FDCWD, old, AT_FDCWD, new))
ON_NAME(linkat, "link", (int from, const char *old, int to, const char *new, int how), (from, old, to, new, how),
        PAIR("link", from, old, to, new))
