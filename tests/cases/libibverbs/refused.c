/* What a program asks wrongly, between two ports of one host: a line for each, with the status of the completion or the errno of the
 * call. After each the queue pairs are made anew. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DIE(what) do { fprintf(stderr, "%s: errno %d\n", what, errno); exit(1); } while (0)
#define SIZE 16384u
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
/* Answers that come are waited for for seconds, those that cannot come not. */
#define PATIENT 20
#define HASTY 12

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    struct ibv_port_attr port;
    unsigned char *memory;
};

static struct end a, b;
static int timeout, rnr_retry, rights;
static unsigned to_lid, to_qpn;

static void open_it(struct end *end, struct ibv_device *device) {
    if (!(end->context = ibv_open_device(device))) DIE("the device");
    if (!(end->pd = ibv_alloc_pd(end->context))) DIE("a domain");
    if (!(end->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0))) DIE("a completion queue");
    end->memory = aligned_alloc(4096, SIZE);
    if (!(end->mr = ibv_reg_mr(end->pd, end->memory, SIZE, ALL))) DIE("a region");
    if (ibv_query_port(end->context, 1, &end->port)) DIE("the port");
}

static struct ibv_qp *make(struct end *end, enum ibv_qp_type type) {
    struct ibv_qp_init_attr init = {.send_cq = end->cq, .recv_cq = end->cq, .qp_type = type, .sq_sig_all = 1,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(end->pd, &init);
    if (!qp) DIE("a queue pair");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights, .qkey = 77};
    int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last)) DIE("INIT");
    return qp;
}

static void connect_to(struct ibv_qp *qp, unsigned lid, unsigned qpn) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn, .max_dest_rd_atomic = 4,
        .min_rnr_timer = 1, .ah_attr = {.dlid = lid, .port_num = 1}};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) DIE("RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 2, .rnr_retry = rnr_retry, .max_rd_atomic = 4};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC)) DIE("RTS");
}

static void begin(void) {
    a.qp = make(&a, IBV_QPT_RC);
    b.qp = make(&b, IBV_QPT_RC);
    connect_to(a.qp, to_lid ? to_lid : b.port.lid, to_qpn ? to_qpn : b.qp->qp_num);
    connect_to(b.qp, a.port.lid, a.qp->qp_num);
}

static void reset(void) {
    timeout = PATIENT, rnr_retry = 7, rights = ALL, to_lid = 0, to_qpn = 0;
}

static void end(void) {
    if (ibv_destroy_qp(a.qp) || ibv_destroy_qp(b.qp)) DIE("the end of queue pairs");
    reset();
}

static int next(struct end *end) {
    struct ibv_wc wc;
    int count;
    while (!(count = ibv_poll_cq(end->cq, 1, &wc))) sched_yield();
    if (count < 0) DIE("poll");
    return wc.status;
}

static void receive(unsigned length) {
    struct ibv_sge sge = {.addr = (uintptr_t)b.memory, .length = length, .lkey = b.mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
    if (ibv_post_recv(b.qp, &wr, &bad)) DIE("a receive request");
}

static struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge) {
    struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = 1};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)b.memory;
        wr.wr.atomic.rkey = b.mr->rkey;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
        wr.wr.rdma.rkey = b.mr->rkey;
    }
    return wr;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr) {
    struct ibv_send_wr *bad = NULL;
    return ibv_post_send(qp, wr, &bad);
}

/* The status with which the request ends. */
static void ends(const char *what, struct ibv_send_wr *wr) {
    if (post(a.qp, wr)) DIE(what);
    printf("%s: status %d\n", what, next(&a));
}

static void statuses(void) {
    struct ibv_sge sge = {.addr = (uintptr_t)a.memory, .length = 4096, .lkey = a.mr->lkey};
    struct ibv_send_wr write = request(IBV_WR_RDMA_WRITE, &sge), read = request(IBV_WR_RDMA_READ, &sge), wr;
    struct ibv_send_wr send = request(IBV_WR_SEND, &sge), atomic = request(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);

    begin(), wr = write, wr.wr.rdma.rkey ^= 0x100, ends("WRITE with a key of nothing", &wr), end();
    begin(), wr = write, wr.wr.rdma.remote_addr += SIZE - 4095, ends("WRITE beyond a region", &wr), end();
    struct ibv_mr *unreadable = ibv_reg_mr(b.pd, b.memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    begin(), wr = read, wr.wr.rdma.rkey = unreadable->rkey, ends("READ without the region's right", &wr), end();
    uint32_t old = unreadable->rkey;
    if (ibv_dereg_mr(unreadable)) DIE("a region");
    begin(), wr = write, wr.wr.rdma.rkey = old, ends("WRITE with a key that was given up", &wr), end();
    rights = 0, begin(), ends("WRITE without the queue pair's right", &write), end();
    begin(), wr = atomic, sge.length = 8, wr.wr.atomic.remote_addr += 4, ends("atomic at half a number", &wr), end();
    sge.length = 4096;
    begin(), sge.lkey ^= 0x100, ends("SEND with a local key of nothing", &send), sge.lkey ^= 0x100, end();
    begin(), receive(4095), ends("SEND longer than its receive request", &send);
    printf("its receive request: status %d\n", next(&b)), end();
    rnr_retry = 1, begin(), ends("SEND without a receive request", &send), end();
    timeout = HASTY, to_qpn = 0x00f00f, begin(), ends("SEND to a queue pair that is not there", &send), end();
    timeout = HASTY, to_lid = 0xbeef, begin(), ends("SEND to a LID without a path", &send), end();
    begin(), receive(4096), ends("SEND", &send), printf("its receive request: status %d\n", next(&b)), end();

    struct ibv_qp *ud = make(&a, IBV_QPT_UD);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    if (ibv_modify_qp(ud, &attr, IBV_QP_STATE)) DIE("RTR");
    attr.qp_state = IBV_QPS_RTS;
    if (ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)) DIE("RTS");
    struct ibv_ah_attr way = {.dlid = b.port.lid, .port_num = 1};
    struct ibv_ah *ah = ibv_create_ah(a.pd, &way);
    wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = 5, wr.wr.ud.remote_qkey = 77;
    sge.length = 4097;
    if (post(ud, &wr)) DIE("a datagram");
    printf("datagram longer than the MTU: status %d\n", next(&a));
    if (ibv_destroy_qp(ud) || ibv_destroy_ah(ah)) DIE("the end of datagrams");
}

static void told(const char *what, int is_refused, int number) {
    printf("%s: errno %d\n", what, is_refused ? number : 0);
}

static void makes(const char *what, void *made) {
    told(what, !made, errno);
}

static struct ibv_qp_init_attr pair(void) {
    return (struct ibv_qp_init_attr){.send_cq = a.cq, .recv_cq = a.cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
}

static void errnos(void) {
    struct ibv_device_attr limits;
    if (ibv_query_device(a.context, &limits)) DIE("the limits");
    struct ibv_qp_init_attr init = pair();
    init.cap.max_send_wr = limits.max_qp_wr + 1;
    makes("a queue pair of too many requests", ibv_create_qp(a.pd, &init));
    init = pair(), init.cap.max_recv_sge = limits.max_sge + 1;
    makes("a queue pair of too many pieces", ibv_create_qp(a.pd, &init));
    init = pair(), init.cap.max_inline_data = 1u << 20;
    makes("a queue pair of too much inline data", ibv_create_qp(a.pd, &init));
    init = pair(), init.qp_type = IBV_QPT_XRC_SEND;
    makes("a queue pair of a service that is refused", ibv_create_qp(a.pd, &init));
    makes("a completion queue of too many", ibv_create_cq(a.context, limits.max_cqe + 1, NULL, NULL, 0));
    makes("a completion queue of none", ibv_create_cq(a.context, 0, NULL, NULL, 0));
    makes("a region that may be written and not read", ibv_reg_mr(a.pd, a.memory, SIZE, IBV_ACCESS_REMOTE_WRITE));
    void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(nothing, 4096);
    makes("a region of no memory", ibv_reg_mr(a.pd, nothing, 4096, ALL));
    struct ibv_ah_attr way = {.dlid = 1, .port_num = 9};
    makes("a handle of a port that is not there", ibv_create_ah(a.pd, &way));
    union ibv_gid gid;
    told("a GID that is not there", ibv_query_gid(a.context, 1, 100000, &gid), errno);
    int outcome = ibv_dealloc_pd(a.pd);
    told("a domain that is used", outcome, outcome);
    outcome = ibv_destroy_cq((begin(), a.cq));
    told("a completion queue that is used", outcome, outcome);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    outcome = ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    told("a state that does not follow", outcome, outcome);
    struct ibv_sge sges[3] = {{.addr = (uintptr_t)a.memory, .length = 1, .lkey = a.mr->lkey}};
    struct ibv_send_wr wr = request(IBV_WR_SEND, sges);
    wr.num_sge = 3, outcome = post(a.qp, &wr);
    told("a request of too many pieces", outcome, outcome);
    wr.num_sge = 1, wr.opcode = 200, outcome = post(a.qp, &wr);
    told("a request of an operation that is not there", outcome, outcome);
    wr.opcode = IBV_WR_SEND;
    /* Nobody receives: what is posted stays. A queue may have more room than was asked for. */
    int posted = 0;
    while (!(outcome = post(a.qp, &wr)) && posted < 4096) posted++;
    told("a request that the queue has no room for", outcome, outcome);
    if (posted < 4) DIE("less room than was asked for");
    end();
    init = pair();
    struct ibv_qp *fresh = ibv_create_qp(a.pd, &init);
    outcome = post(fresh, &wr);
    told("a request before the queue pair is connected", outcome, outcome);
    if (ibv_destroy_qp(fresh)) DIE("a queue pair");
}

int main(void) {
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    if (!list || count < 2) DIE("two devices");
    reset();
    open_it(&a, list[0]);
    open_it(&b, list[1]);
    statuses();
    errnos();
    return 0;
}
