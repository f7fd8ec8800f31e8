/* What the programs of these tests share: a check, and buffers for MADs. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <infiniband/umad.h>

#define CHECK(truth)                                                                            \
    do {                                                                                        \
        if (!(truth)) {                                                                         \
            fprintf(stderr, "%s, line %d: %s (errno %d)\n", __FILE__, __LINE__, #truth, errno); \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

enum { MAD = 256, PERF = 4, QP1_QKEY = 0x80010000 };

static void *buffer(void)
{
    void *umad = umad_alloc(1, umad_size() + MAD);
    CHECK(umad);
    return umad;
}

/* A Get of an attribute below 256, by number of transaction. */
static unsigned char *get(int class, unsigned char attribute, unsigned number)
{
    unsigned char *umad = buffer(), *mad = umad_get_mad(umad);
    mad[0] = mad[2] = mad[3] = 1;
    mad[1] = class;
    mad[12] = number >> 24, mad[13] = number >> 16, mad[14] = number >> 8, mad[15] = number;
    mad[17] = attribute;
    return umad;
}
