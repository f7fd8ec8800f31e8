/* What a program calls in place of the C library's functions: those of src/abi decide. Only open takes a variable
 * number of arguments, which Rust cannot take; fstat has two structures of one layout. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#undef open
#undef openat
#undef fstat

extern int ibemu_cm_open(const char *path, int flags);
extern int ibemu_cm_is_channel(int fd);
extern ssize_t ibemu_cm_write(int fd, const void *bytes, size_t length);
extern void ibemu_cm_forget(int fd);

/* Each function's next definition, looked up at the first call: whichever thread writes it, it is the same. */
#define NEXT(type, name)                                                  \
    typedef __typeof__(type) of_##name;                                   \
    static of_##name *next_##name;                                        \
    static of_##name *find_##name(void)                                   \
    {                                                                     \
        of_##name *next = __atomic_load_n(&next_##name, __ATOMIC_RELAXED);     \
        if (!next) {                                                      \
            next = (of_##name *)dlsym(RTLD_NEXT, #name);                       \
            __atomic_store_n(&next_##name, next, __ATOMIC_RELAXED);       \
        }                                                                 \
        return next;                                                      \
    }

static int takes_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

static mode_t mode_of(int flags, va_list list)
{
    return takes_mode(flags) ? va_arg(list, mode_t) : 0;
}

/* -2: it is not the device. */
#define OPEN(name)                                                        \
    NEXT(int(const char *, int, ...), name)                               \
    int name(const char *path, int flags, ...)                            \
    {                                                                     \
        int fd = ibemu_cm_open(path, flags);                              \
        if (fd != -2)                                                     \
            return fd;                                                    \
        va_list list;                                                     \
        va_start(list, flags);                                            \
        mode_t mode = mode_of(flags, list);                               \
        va_end(list);                                                     \
        return find_##name()(path, flags, mode);                          \
    }

#define OPENAT(name)                                                      \
    NEXT(int(int, const char *, int, ...), name)                          \
    int name(int folder, const char *path, int flags, ...)                \
    {                                                                     \
        int fd = ibemu_cm_open(path, flags);                              \
        if (fd != -2)                                                     \
            return fd;                                                    \
        va_list list;                                                     \
        va_start(list, flags);                                            \
        mode_t mode = mode_of(flags, list);                               \
        va_end(list);                                                     \
        return find_##name()(folder, path, flags, mode);                  \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* What open is compiled to with _FORTIFY_SOURCE. */
#define OPEN_2(name)                                                      \
    NEXT(int(const char *, int), name)                                    \
    int name(const char *path, int flags)                                 \
    {                                                                     \
        int fd = ibemu_cm_open(path, flags);                              \
        return fd != -2 ? fd : find_##name()(path, flags);                \
    }

#define OPENAT_2(name)                                                    \
    NEXT(int(int, const char *, int), name)                               \
    int name(int folder, const char *path, int flags)                     \
    {                                                                     \
        int fd = ibemu_cm_open(path, flags);                              \
        return fd != -2 ? fd : find_##name()(folder, path, flags);        \
    }

OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

/* A channel is a character device: librdmacm looks. Miscellaneous devices have major number 10. */
#define SHOW(fd, status)                                                  \
    if (ibemu_cm_is_channel(fd)) {                                        \
        (status)->st_mode = S_IFCHR | 0666;                               \
        (status)->st_rdev = (10 << 8) | 120;                              \
    }

#define FSTAT(name, type)                                                 \
    NEXT(int(int, type *), name)                                          \
    int name(int fd, type *status)                                        \
    {                                                                     \
        int failed = find_##name()(fd, status);                           \
        if (!failed)                                                      \
            SHOW(fd, status)                                              \
        return failed;                                                    \
    }

/* The same as programs call it that were linked to a C library before 2.33. */
#define FXSTAT(name, type)                                                \
    NEXT(int(int, int, type *), name)                                     \
    int name(int version, int fd, type *status)                           \
    {                                                                     \
        int failed = find_##name()(version, fd, status);                  \
        if (!failed)                                                      \
            SHOW(fd, status)                                              \
        return failed;                                                    \
    }

FSTAT(fstat, struct stat)
FSTAT(fstat64, struct stat64)
FXSTAT(__fxstat, struct stat)
FXSTAT(__fxstat64, struct stat64)

NEXT(ssize_t(int, const void *, size_t), write)
ssize_t write(int fd, const void *bytes, size_t length)
{
    if (!ibemu_cm_is_channel(fd))
        return find_write()(fd, bytes, length);
    return ibemu_cm_write(fd, bytes, length);
}

NEXT(int(int), close)
int close(int fd)
{
    ibemu_cm_forget(fd);
    return find_close()(fd);
}

/* They close what has the number. */
NEXT(int(int, int), dup2)
int dup2(int from, int to)
{
    if (from != to)
        ibemu_cm_forget(to);
    return find_dup2()(from, to);
}

NEXT(int(int, int, int), dup3)
int dup3(int from, int to, int flags)
{
    ibemu_cm_forget(to);
    return find_dup3()(from, to, flags);
}

/* Later, a signal handler may be the first to call one of them. */
__attribute__((constructor)) static void find_all(void)
{
    find_open();
    find_open64();
    find_openat();
    find_openat64();
    find___open_2();
    find___open64_2();
    find___openat_2();
    find___openat64_2();
    find_fstat();
    find_fstat64();
    find___fxstat();
    find___fxstat64();
    find_write();
    find_close();
    find_dup2();
    find_dup3();
}
