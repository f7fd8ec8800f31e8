/* What a program of libibumad may rely on, beside a host of a fabric. Prints "ok" and ends with 0, or says what is
 * wrong. */
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "request.h"

/* The layouts of the distribution are those of the library (ibumad/src/abi/mod.rs). */
_Static_assert(sizeof(ib_mad_addr_t) == 44, "ib_mad_addr");
_Static_assert(offsetof(ib_mad_addr_t, gid) == 16, "ib_mad_addr.gid");
_Static_assert(offsetof(ib_mad_addr_t, flow_label) == 32, "ib_mad_addr.flow_label");
_Static_assert(offsetof(ib_mad_addr_t, pkey_index) == 36, "ib_mad_addr.pkey_index");
_Static_assert(sizeof(ib_user_mad_t) == 64, "ib_user_mad");
_Static_assert(offsetof(ib_user_mad_t, length) == 16, "ib_user_mad.length");
_Static_assert(offsetof(ib_user_mad_t, addr) == 20, "ib_user_mad.addr");
_Static_assert(sizeof(umad_port_t) == 112, "umad_port");
_Static_assert(offsetof(umad_port_t, portnum) == 20, "umad_port.portnum");
_Static_assert(offsetof(umad_port_t, capmask) == 52, "umad_port.capmask");
_Static_assert(offsetof(umad_port_t, port_guid) == 64, "umad_port.port_guid");
_Static_assert(offsetof(umad_port_t, pkeys) == 80, "umad_port.pkeys");
_Static_assert(offsetof(umad_port_t, link_layer) == 88, "umad_port.link_layer");
_Static_assert(sizeof(umad_ca_t) == 208, "umad_ca");
_Static_assert(offsetof(umad_ca_t, fw_ver) == 28, "umad_ca.fw_ver");
_Static_assert(offsetof(umad_ca_t, ca_type) == 48, "umad_ca.ca_type");
_Static_assert(offsetof(umad_ca_t, hw_ver) == 88, "umad_ca.hw_ver");
_Static_assert(offsetof(umad_ca_t, node_guid) == 112, "umad_ca.node_guid");
_Static_assert(offsetof(umad_ca_t, ports) == 128, "umad_ca.ports");
_Static_assert(sizeof(struct umad_reg_attr) == 32, "umad_reg_attr");
_Static_assert(offsetof(struct umad_reg_attr, method_mask) == 8, "umad_reg_attr.method_mask");
_Static_assert(offsetof(struct umad_reg_attr, oui) == 24, "umad_reg_attr.oui");
_Static_assert(offsetof(struct umad_reg_attr, rmpp_version) == 28, "umad_reg_attr.rmpp_version");

enum { SUBN_DIR = 0x81, AGENTS = 1000, THREADS = 8, REQUESTS = 50 };

static int port;

/* A Get of the host's own NodeInfo, by the directed route without a hop. */
static void ask_own(int agent, unsigned number, int timeout_ms)
{
    unsigned char *umad = get(SUBN_DIR, 0x11, number), *mad = umad_get_mad(umad);
    memset(mad + 32, 0xff, 4);
    umad_set_addr(umad, 0xffff, 0, 0, 0);
    CHECK(umad_send(port, agent, umad, MAD, timeout_ms, 0) == 0);
    umad_free(umad);
}

/* The next MAD: its agent, status and number. */
static int receive(int *status, unsigned *number)
{
    unsigned char *umad = buffer(), *mad = umad_get_mad(umad);
    int length, agent;
    do {
        /* Another thread may have been faster, as with the kernel's. */
        length = MAD;
        agent = umad_recv(port, umad, &length, 10000);
    } while (agent == -EAGAIN);
    CHECK(agent >= 0);
    *status = umad_status(umad);
    *number = (unsigned)mad[12] << 24 | mad[13] << 16 | mad[14] << 8 | mad[15];
    if (!*status)
        CHECK(length == MAD && mad[3] == 0x81);
    umad_free(umad);
    return agent;
}

static void adapters(void)
{
    char names[4][UMAD_CA_NAME_LEN];
    umad_ca_t ca;
    umad_port_t alone;
    __be64 guids[UMAD_CA_MAX_PORTS];
    CHECK(umad_get_cas_names(names, 4) == 1);
    CHECK(umad_get_ca(NULL, &ca) == 0 && !strcmp(ca.ca_name, names[0]));
    CHECK(ca.node_type == 1 && ca.numports == 1 && ca.ports[1] && !ca.ports[0]);
    CHECK(umad_get_port(names[0], 0, &alone) == 0);
    CHECK(alone.portnum == 1 && alone.state == 4 && alone.phys_state == 5);
    CHECK(alone.base_lid == ca.ports[1]->base_lid && alone.base_lid > 0);
    CHECK(alone.pkeys_size > 0 && alone.pkeys[0] == 0xffff);
    CHECK(!strcmp(alone.link_layer, "InfiniBand"));
    CHECK(umad_get_ca_portguids(names[0], guids, UMAD_CA_MAX_PORTS) == 2);
    CHECK(guids[0] == 0 && guids[1] == alone.port_guid);
    CHECK(umad_release_port(&alone) == 0 && umad_release_ca(&ca) == 0);
    CHECK(umad_get_ca("nothing", &ca) == -ENODEV);
    CHECK(umad_open_port(names[0], 9) < 0);
    struct umad_device_node *list = umad_get_ca_device_list();
    CHECK(list && !list->next && !strcmp(list->ca_name, names[0]));
    umad_free_ca_device_list(list);
}

static void registrations(void)
{
    long gets[16 / sizeof(long)] = {1 << 1}, sets[16 / sizeof(long)] = {1 << 2};
    uint8_t oui[3] = {0, 0x14, 5};
    int first = umad_register(port, 7, 2, 0, gets);
    CHECK(first == 0);
    CHECK(umad_register(port, 7, 2, 0, gets) == -EPERM && errno == EINVAL);
    int other = umad_open_port(NULL, 0);
    CHECK(umad_register(other, 7, 2, 0, gets) < 0);
    CHECK(umad_register(other, 7, 2, 0, sets) == 0);
    CHECK(umad_register(other, 7, 1, 0, gets) == 1);
    CHECK(umad_close_port(other) == 0);
    CHECK(umad_register(port, 0x50, 1, 0, gets) < 0);
    CHECK(umad_register(port, 7, 0x83, 0, gets) < 0);
    CHECK(umad_register(port, 7, 2, 1, NULL) < 0);
    CHECK(umad_register_oui(port, 7, 0, oui, gets) == -EINVAL);
    CHECK(umad_register_oui(port, 0x32, 2, oui, gets) < 0);
    struct umad_reg_attr wanted = {.mgmt_class = 3, .mgmt_class_version = 2, .flags = 6};
    uint32_t agent = 99;
    CHECK(umad_register2(port, &wanted, &agent) == EINVAL && wanted.flags == UMAD_USER_RMPP);
    CHECK(umad_register2(port, &wanted, &agent) == 0 && agent == 1);
    CHECK(umad_unregister(port, 1) == 0 && umad_unregister(port, 1) == -1 && errno == EINVAL);
    CHECK(umad_unregister(port, first) == 0);
    for (int number = 0; number < AGENTS; number++)
        CHECK(umad_register(port, PERF, 1, 0, NULL) == number);
    for (int number = 0; number < AGENTS; number++)
        CHECK(umad_unregister(port, number) == 0);
}

static void timeouts(void)
{
    struct timespec begun, ended;
    int status;
    unsigned number;
    int perf = umad_register(port, PERF, 1, 0, NULL);
    unsigned char *umad = get(PERF, 0x12, 7);
    umad_set_addr(umad, 0xbff0, 1, 0, QP1_QKEY);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    CHECK(umad_send(port, perf, umad, MAD, 100, 2) == 0);
    CHECK(umad_poll(port, 10) == -ETIMEDOUT);
    CHECK(receive(&status, &number) == perf && status == ETIMEDOUT && number == 7);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    long took_ms = (ended.tv_sec - begun.tv_sec) * 1000 + (ended.tv_nsec - begun.tv_nsec) / 1000000;
    CHECK(took_ms >= 300);
    /* An agent that is not there, and MADs that are too short and too long. */
    CHECK(umad_send(port, 999, umad, MAD, 100, 2) == 0);
    CHECK(receive(&status, &number) == 999 && status == EINVAL);
    CHECK(umad_send(port, perf, umad, 35, 100, 2) == -EIO && errno == EINVAL);
    umad_free(umad);
    CHECK(umad_unregister(port, perf) == 0);
}

static void *ask_from_thread(void *argument)
{
    int agent = *(int *)argument;
    for (unsigned number = 0; number < REQUESTS; number++)
        ask_own(agent, number, 5000);
    return NULL;
}

static void *receive_in_thread(void *argument)
{
    unsigned *answers = argument;
    for (int count = 0; count < THREADS * REQUESTS / 2; count++) {
        int status;
        unsigned number;
        int agent = receive(&status, &number);
        CHECK(agent < THREADS && status == 0 && number < REQUESTS);
        __atomic_fetch_add(&answers[agent], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t asking[THREADS], receiving[2];
    int agents[THREADS];
    unsigned answers[THREADS] = {0};
    for (int at = 0; at < THREADS; at++)
        CHECK((agents[at] = umad_register(port, SUBN_DIR, 1, 0, NULL)) == at);
    for (int at = 0; at < 2; at++)
        CHECK(!pthread_create(&receiving[at], NULL, receive_in_thread, answers));
    for (int at = 0; at < THREADS; at++)
        CHECK(!pthread_create(&asking[at], NULL, ask_from_thread, &agents[at]));
    for (int at = 0; at < THREADS; at++)
        pthread_join(asking[at], NULL);
    for (int at = 0; at < 2; at++)
        pthread_join(receiving[at], NULL);
    for (int at = 0; at < THREADS; at++)
        CHECK(answers[at] == REQUESTS && umad_unregister(port, agents[at]) == 0);
}

static void *wait_for_ever(void *argument)
{
    int status;
    unsigned number;
    (void)argument;
    receive(&status, &number);
    return NULL;
}

/* OpenSM ends its receiving thread so. */
static void cancellation(void)
{
    pthread_t thread;
    void *result;
    CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
    CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
}

/* A descriptor is shared with a child, which registers agents of its own. */
static void forks(void)
{
    int status;
    unsigned number;
    int agent = umad_register(port, SUBN_DIR, 1, 0, NULL);
    pid_t child = fork();
    if (!child) {
        int own = umad_register(port, SUBN_DIR, 1, 0, NULL);
        CHECK(own == agent + 1);
        ask_own(agent, 1, 5000);
        CHECK(receive(&status, &number) == agent && !status && number == 1);
        ask_own(own, 2, 5000);
        CHECK(receive(&status, &number) == own && !status && number == 2);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    struct pollfd polled = {.fd = umad_get_fd(port), .events = POLLIN};
    CHECK(poll(&polled, 1, 0) == 0);
    ask_own(agent, 3, 5000);
    CHECK(poll(&polled, 1, 10000) == 1 && polled.revents == POLLIN);
    CHECK(receive(&status, &number) == agent && !status && number == 3);
}

/* Another user is not served. */
static void stranger(void)
{
    int status;
    if (geteuid())
        return;
    pid_t child = fork();
    if (!child) {
        CHECK(!setuid(65534));
        CHECK(umad_open_port(NULL, 0) < 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* Both write to standard error, which the test reads. */
static void dumps(void)
{
    unsigned char *umad = get(PERF, 1, 1);
    umad_set_addr(umad, 0x1234, 1, 3, QP1_QKEY);
    umad_dump(umad);
    umad_addr_dump(umad_get_mad_addr(umad));
    umad_free(umad);
}

int main(void)
{
    CHECK(umad_init() == 0 && umad_size() == 64);
    adapters();
    CHECK((port = umad_open_port(NULL, 0)) >= 0);
    registrations();
    timeouts();
    threads();
    cancellation();
    forks();
    stranger();
    dumps();
    CHECK(umad_close_port(port) == 0 && umad_done() == 0);
    puts("ok");
    return 0;
}
