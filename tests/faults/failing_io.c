/* Preloaded into a process: lets the n-th write or sync of a store's files fail, or ends the process in the middle of it.
   `failing_io_arm` is called from the process itself; until then everything passes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { SYNC_FAILS = 1, WRITE_FAILS = 2, WRITE_IS_TORN = 3, SYNC_KILLS = 4 };

static int armed, countdown, with_errno;

void failing_io_arm(int what, int nth, int error) {
    with_errno = error;
    __atomic_store_n(&countdown, nth, __ATOMIC_SEQ_CST);
    __atomic_store_n(&armed, what, __ATOMIC_SEQ_CST);
}

int failing_io_left(void) { return __atomic_load_n(&countdown, __ATOMIC_SEQ_CST); }

static int of_a_store(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return strstr(path, ".sqlite") != NULL;
}

static int now(int fd) {
    return of_a_store(fd) && __atomic_sub_fetch(&countdown, 1, __ATOMIC_SEQ_CST) == 0;
}

static int sync_with(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int what = __atomic_load_n(&armed, __ATOMIC_SEQ_CST);
    if ((what == SYNC_FAILS || what == SYNC_KILLS) && now(fd)) {
        if (what == SYNC_KILLS) kill(getpid(), SIGKILL);
        errno = with_errno;
        return -1;
    }
    return real(fd);
}

int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

static ssize_t write_with(const char *name, int fd, const void *data, size_t size, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, name);
    int what = __atomic_load_n(&armed, __ATOMIC_SEQ_CST);
    if ((what == WRITE_FAILS || what == WRITE_IS_TORN) && now(fd)) {
        if (what == WRITE_IS_TORN) {
            real(fd, data, size / 2, at);
            kill(getpid(), SIGKILL);
        }
        errno = with_errno;
        return -1;
    }
    return real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return write_with("pwrite", fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return write_with("pwrite64", fd, data, size, at); }
