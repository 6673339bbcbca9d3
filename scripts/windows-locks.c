/* Gives flock() the rules of LockFileEx, as far as one process can see them: a lock belongs to one descriptor. While a descriptor
 * holds an exclusive lock, no other reads or writes the file; while one holds a shared lock, nobody writes, not even itself.
 * scripts/check-windows-locks preloads this. An access that Windows would deny fails with EDEADLK and is named on stderr. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FD = 65536 };

/* What each descriptor has locked: 0, LOCK_SH or LOCK_EX. */
static volatile int kinds[MAX_FD];
static struct { dev_t dev; ino_t ino; } places[MAX_FD];
static volatile int highest = -1;

static int known(int fd) { return fd >= 0 && fd < MAX_FD; }

int flock(int fd, int operation)
{
    static int (*next)(int, int);
    if (!next) next = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    int result = next(fd, operation);
    if (result == 0 && known(fd)) {
        struct stat is;
        int kind = operation & (LOCK_SH | LOCK_EX);
        if (kind && fstat(fd, &is) == 0) {
            places[fd].dev = is.st_dev;
            places[fd].ino = is.st_ino;
            if (fd > highest) highest = fd;
        }
        kinds[fd] = kind;
    }
    return result;
}

int close(int fd)
{
    static int (*next)(int);
    if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "close");
    if (known(fd)) kinds[fd] = 0;
    return next(fd);
}

static int denied(int fd, int is_write)
{
    struct stat is;
    if (highest < 0 || fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return 0;
    for (int other = 0; other <= highest; other++) {
        int kind = kinds[other];
        if (!kind || places[other].dev != is.st_dev || places[other].ino != is.st_ino) continue;
        if (kind == LOCK_EX ? other != fd : is_write) {
            dprintf(2, "windows-locks: a %s of inode %lu is denied\n", is_write ? "write" : "read", (unsigned long)is.st_ino);
            errno = EDEADLK;
            return 1;
        }
    }
    return 0;
}

#define GUARDED(type, name, parameters, arguments, is_write)                        \
    type name parameters                                                            \
    {                                                                               \
        static type (*next) parameters;                                             \
        if (!next) next = (type (*) parameters)dlsym(RTLD_NEXT, #name);             \
        return denied(fd, is_write) ? -1 : next arguments;                          \
    }

GUARDED(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), 0)
GUARDED(ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at), 0)
GUARDED(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), 1)
GUARDED(ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at), 1)
GUARDED(int, ftruncate64, (int fd, off64_t n), (fd, n), 1)
