/* What a program of libibverbs may rely on, beside a host that does the simplest thing (model.rs). Prints "ok" and
 * ends with 0, or says what is wrong. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define CHECK(truth)                                                              \
    do {                                                                          \
        if (!(truth)) {                                                           \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #truth, errno); \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

enum { DEPTH = 8, BYTES = 4096, ROUNDS = 2000, THREADS = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;

struct side {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
};

static void devices(void)
{
    int count = -1;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list && count == 1 && !list[1]);
    CHECK(!strcmp(ibv_get_device_name(list[0]), "model0"));
    CHECK(ibv_get_device_guid(list[0]) == htobe64(0x0002c90300000001));
    CHECK(list[0]->node_type == IBV_NODE_CA && !strcmp(list[0]->dev_name, "uverbs0"));
    context = ibv_open_device(list[0]);
    CHECK(context);
    ibv_free_device_list(list);
    CHECK(!strcmp(ibv_get_device_name(context->device), "model0"));
    pd = ibv_alloc_pd(context);
    CHECK(pd && pd->context == context);
}

static void queries(void)
{
    struct ibv_device_attr device;
    struct ibv_device_attr_ex extended;
    struct ibv_port_attr port;
    struct ibv_gid_entry entries[8];
    union ibv_gid gid;
    __be16 pkey;
    CHECK(!ibv_query_device(context, &device) && device.max_qp_wr == 64 && device.phys_port_cnt == 1);
    CHECK(!ibv_query_device_ex(context, NULL, &extended) && extended.orig_attr.max_qp_wr == 64);
    CHECK(extended.phys_port_cnt_ex == 1 && !extended.odp_caps.general_caps);
    CHECK(!ibv_query_port(context, 1, &port) && port.state == IBV_PORT_ACTIVE && port.lid == 7);
    CHECK(port.active_mtu == IBV_MTU_2048 && port.link_layer == IBV_LINK_LAYER_INFINIBAND);
    CHECK(port.active_speed == 128);
    CHECK(ibv_query_port(context, 2, &port) == EINVAL);
    CHECK(!ibv_query_gid(context, 1, 0, &gid) && gid.raw[0] == 1);
    CHECK(!ibv_query_gid(context, 1, 1, &gid) && gid.raw[0] == 0);
    CHECK(ibv_query_gid(context, 1, 8, &gid) == -1);
    CHECK(ibv_query_gid_ex(context, 1, 1, entries, 0) == ENODATA);
    CHECK(ibv_query_gid_table(context, entries, 8, 0) == 2 && entries[1].gid_index == 2);
    CHECK(!ibv_query_pkey(context, 1, 1, &pkey) && pkey == htons(0x8001));
    CHECK(ibv_get_pkey_index(context, 1, htons(0x8001)) == 1);
    CHECK(ibv_get_pkey_index(context, 1, htons(0x8002)) == -1);
}

static void refusals(void)
{
    static char memory[BYTES];
    struct ibv_xrcd_init_attr xrcd = {0};
    struct ibv_alloc_dm_attr dm = {.length = 1};
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RAW_PACKET};
    CHECK(!ibv_open_xrcd(context, &xrcd) && errno == EOPNOTSUPP);
    CHECK(!ibv_alloc_mw(pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
    CHECK(!ibv_alloc_dm(context, &dm) && errno == EOPNOTSUPP);
    CHECK(!ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_ON_DEMAND) && errno == EOPNOTSUPP);
    CHECK(!ibv_reg_dmabuf_mr(pd, 0, BYTES, 0, 0, 0) && errno == EOPNOTSUPP);
    CHECK(!ibv_create_qp(pd, &init) && errno == EOPNOTSUPP);
    CHECK(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
    CHECK(!ibv_create_cq(context, 1, NULL, NULL, 1) && errno == EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    CHECK(mr && mr->addr == memory && mr->length == BYTES && mr->pd == pd);
    uint32_t key = mr->lkey;
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 8, 16, 0));
    CHECK(mr->lkey == key && mr->rkey == key && mr->addr == memory + 8 && mr->length == 16);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 16, 0) == IBV_REREG_MR_ERR_INPUT);
    CHECK(!ibv_dereg_mr(mr));
}

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer)
{
    struct ibv_qp_attr attr = {.qp_state = state, .dest_qp_num = peer};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | (peer ? IBV_QP_DEST_QPN : 0)) && qp->state == state);
}

static void join(struct ibv_qp *qp, struct ibv_qp *peer)
{
    to_state(qp, IBV_QPS_INIT, 0);
    to_state(qp, IBV_QPS_RTR, peer->qp_num);
    to_state(qp, IBV_QPS_RTS, 0);
}

static struct side make(void)
{
    struct side side;
    side.memory = calloc(1, BYTES);
    side.mr = ibv_reg_mr(pd, side.memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    side.channel = ibv_create_comp_channel(context);
    side.cq = ibv_create_cq(context, 2 * DEPTH, &side, side.channel, 0);
    CHECK(side.mr && side.channel && side.cq && side.cq->cqe >= 2 * DEPTH);
    struct ibv_qp_init_attr init = {
        .send_cq = side.cq,
        .recv_cq = side.cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64},
        .qp_type = IBV_QPT_RC,
    };
    side.qp = ibv_create_qp(pd, &init);
    CHECK(side.qp && init.cap.max_inline_data == 64 && !ibv_qp_to_qp_ex(side.qp));
    return side;
}

static void destroy(struct side *side)
{
    CHECK(ibv_destroy_cq(side->cq) == EBUSY);
    CHECK(!ibv_destroy_qp(side->qp));
    CHECK(ibv_destroy_comp_channel(side->channel) == EBUSY);
    CHECK(!ibv_destroy_cq(side->cq) && !ibv_destroy_comp_channel(side->channel));
    CHECK(!ibv_dereg_mr(side->mr));
    free(side->memory);
}

static int post_receive(struct side *side, uint64_t id)
{
    struct ibv_sge piece = {(uintptr_t)side->memory, BYTES, side->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &piece, .num_sge = 1}, *bad = NULL;
    int error = ibv_post_recv(side->qp, &wr, &bad);
    CHECK(!error || bad == &wr);
    return error;
}

static int post_send(struct side *side, uint64_t id, unsigned flags, size_t length)
{
    struct ibv_sge piece = {(uintptr_t)side->memory, length, side->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
                             .send_flags = flags, .imm_data = htonl(id)}, *bad = NULL;
    int error = ibv_post_send(side->qp, &wr, &bad);
    CHECK(!error || bad == &wr);
    return error;
}

static struct ibv_wc one(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int count;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
        sched_yield();
    CHECK(count == 1);
    return wc;
}

/* Messages both ways, with places of unsignaled requests free again once a later one is told. */
static void messages(struct side *a, struct side *b)
{
    CHECK(post_send(a, 1, 0, 8) == EINVAL);
    join(a->qp, b->qp);
    join(b->qp, a->qp);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct side *from = round % 2 ? a : b, *to = round % 2 ? b : a;
        for (int at = 0; at < DEPTH; at++)
            CHECK(!post_receive(to, round + at));
        CHECK(post_receive(to, 0) == ENOMEM);
        for (int at = 0; at < DEPTH; at++) {
            unsigned flags = at == DEPTH - 1 ? IBV_SEND_SIGNALED : 0;
            snprintf(from->memory, BYTES, "message %u", round + at);
            CHECK(!post_send(from, round + at, flags | IBV_SEND_INLINE, 32));
        }
        CHECK(post_send(from, 0, 0, 8) == ENOMEM);
        for (int at = 0; at < DEPTH; at++) {
            struct ibv_wc wc = one(to->cq);
            CHECK(wc.wr_id == round + at && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
            CHECK(wc.byte_len == 32 && wc.imm_data == htonl(round + at) && wc.wc_flags == IBV_WC_WITH_IMM);
            CHECK(wc.qp_num == to->qp->qp_num);
        }
        char expected[32];
        snprintf(expected, sizeof(expected), "message %u", round + DEPTH - 1);
        CHECK(!strcmp(to->memory, expected));
        struct ibv_wc wc = one(from->cq);
        CHECK(wc.wr_id == round + DEPTH - 1 && wc.opcode == IBV_WC_SEND && wc.qp_num == from->qp->qp_num);
    }
    CHECK(post_send(a, 0, IBV_SEND_INLINE, 65) == EINVAL);
    CHECK(post_send(a, 0, 1 << 7, 8) == EINVAL);
}

static void lists(struct side *a, struct side *b)
{
    struct ibv_sge pieces[3] = {{(uintptr_t)a->memory, 8, a->mr->lkey}, {(uintptr_t)a->memory + 100, 8, a->mr->lkey}};
    struct ibv_send_wr third = {.wr_id = 3, .sg_list = pieces, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE};
    struct ibv_send_wr second = {.wr_id = 2, .next = &third, .sg_list = pieces, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {(uintptr_t)b->memory + 200, b->mr->rkey}};
    struct ibv_send_wr first = second, *bad = NULL;
    first.wr_id = 1;
    first.next = &second;
    memcpy(a->memory, "scatter", 8);
    memcpy(a->memory + 100, "gather!", 8);
    CHECK(ibv_post_send(a->qp, &first, &bad) == EINVAL && bad == &third);
    CHECK(one(a->cq).wr_id == 1 && one(a->cq).wr_id == 2);
    CHECK(!memcmp(b->memory + 200, "scatter\0gather!", 16));
    struct ibv_send_wr read = {.wr_id = 4, .sg_list = pieces, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
                               .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)b->memory + 208, b->mr->rkey}};
    CHECK(!ibv_post_send(a->qp, &read, &bad));
    CHECK(one(a->cq).opcode == IBV_WC_RDMA_READ && !strcmp(a->memory, "gather!"));
}

static void notifications(struct side *a, struct side *b)
{
    struct ibv_cq *cq;
    void *its;
    struct pollfd polled = {.fd = b->channel->fd, .events = POLLIN};
    CHECK(!post_receive(b, 1) && !post_receive(b, 2) && !post_receive(b, 3));
    CHECK(!ibv_req_notify_cq(b->cq, 1));
    CHECK(!post_send(a, 1, IBV_SEND_SIGNALED, 8));
    one(a->cq);
    CHECK(poll(&polled, 1, 0) == 0);
    CHECK(!post_send(a, 2, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED, 8));
    CHECK(!ibv_get_cq_event(b->channel, &cq, &its) && cq == b->cq);
    CHECK(!post_send(a, 3, IBV_SEND_SOLICITED | IBV_SEND_SIGNALED, 8));
    one(a->cq);
    one(a->cq);
    CHECK(poll(&polled, 1, 0) == 0);
    CHECK(one(b->cq).wr_id == 1 && one(b->cq).wr_id == 2 && one(b->cq).wr_id == 3);
    /* A size changes without loss, and so does what was asked for. */
    CHECK(!post_receive(b, 4) && !post_receive(b, 5));
    CHECK(!post_send(a, 4, IBV_SEND_SIGNALED, 8));
    one(a->cq);
    CHECK(!ibv_req_notify_cq(b->cq, 0));
    CHECK(!ibv_resize_cq(b->cq, 100) && b->cq->cqe >= 100);
    CHECK(!post_send(a, 5, IBV_SEND_SIGNALED, 8));
    CHECK(!ibv_get_cq_event(b->channel, &cq, &its) && cq == b->cq);
    CHECK(one(b->cq).wr_id == 4 && one(b->cq).wr_id == 5);
    one(a->cq);
    int flags = fcntl(b->channel->fd, F_GETFL);
    CHECK(!(flags & O_NONBLOCK) && !fcntl(b->channel->fd, F_SETFL, flags | O_NONBLOCK));
    CHECK(ibv_get_cq_event(b->channel, &cq, &its) == -1 && errno == EAGAIN);
    ibv_ack_cq_events(b->cq, 2);
}

static void resets(struct side *a, struct side *b)
{
    struct ibv_wc wc;
    for (int at = 0; at < DEPTH; at++)
        CHECK(!post_receive(b, at));
    for (int at = 0; at < DEPTH; at++)
        CHECK(!post_send(a, at, IBV_SEND_SIGNALED, 8));
    CHECK(one(a->cq).wr_id == 0);
    to_state(a->qp, IBV_QPS_RESET, 0);
    CHECK(ibv_poll_cq(a->cq, 1, &wc) == 0);
    for (int at = 0; at < DEPTH; at++)
        CHECK(one(b->cq).wr_id == at);
    join(a->qp, b->qp);
    for (int at = 0; at < DEPTH; at++)
        CHECK(!post_receive(b, at) && !post_send(a, at, IBV_SEND_SIGNALED, 8));
    for (int at = 0; at < DEPTH; at++)
        CHECK(one(a->cq).wr_id == at && one(b->cq).wr_id == at);
}

static void attributes(struct side *a)
{
    struct ibv_qp_attr attr = {.ah_attr = {.dlid = 9, .sl = 3, .is_global = 1, .grh = {.flow_label = 5}, .port_num = 1}};
    struct ibv_qp_init_attr init;
    CHECK(!ibv_modify_qp(a->qp, &attr, IBV_QP_AV));
    CHECK(ibv_modify_qp(a->qp, &attr, IBV_QP_ALT_PATH) == EOPNOTSUPP);
    memset(&attr, 0, sizeof(attr));
    CHECK(!ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
    CHECK(attr.ah_attr.dlid == 9 && attr.ah_attr.sl == 3 && attr.ah_attr.grh.flow_label == 5 && attr.ah_attr.is_global);
    CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == a->cq && init.cap.max_send_wr == DEPTH);
}

/* An object that is destroyed waits until its events are acknowledged, and events of what is no more are passed over. */
static void *acknowledge(void *event)
{
    ibv_ack_async_event(event);
    return NULL;
}

static void asynchronous(struct side *a)
{
    union ibv_gid group = {.raw = {0xff}};
    struct ibv_async_event event;
    struct side gone = make();
    pthread_t thread;
    CHECK(!ibv_attach_mcast(gone.qp, &group, 0));
    destroy(&gone);
    CHECK(!ibv_attach_mcast(a->qp, &group, 0));
    CHECK(!ibv_get_async_event(context, &event));
    CHECK(event.event_type == IBV_EVENT_COMM_EST && event.element.qp == a->qp);
    CHECK(!pthread_create(&thread, NULL, acknowledge, &event) && !pthread_join(thread, NULL));
}

static void extended(void)
{
    struct ibv_cq_init_attr_ex wanted = {.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &wanted);
    struct ibv_poll_cq_attr attr = {0};
    char memory[64] = "built";
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
    CHECK(cq && mr && ibv_start_poll(cq, &attr) == ENOENT);
    wanted.wc_flags = IBV_WC_EX_WITH_CVLAN;
    CHECK(!ibv_create_cq_ex(context, &wanted) && errno == EOPNOTSUPP);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = ibv_cq_ex_to_cq(cq), .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .pd = pd,
        .cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM};
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    struct ibv_qp_ex *qpx = qp ? ibv_qp_to_qp_ex(qp) : NULL;
    CHECK(qpx);
    init.send_ops_flags = IBV_QP_EX_WITH_BIND_MW;
    CHECK(!ibv_create_qp_ex(context, &init) && errno == EOPNOTSUPP);
    join(qp, qp);
    struct ibv_sge piece = {(uintptr_t)memory + 32, 32, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &piece, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(qp, &wr, &bad) && !ibv_post_recv(qp, &wr, &bad));
    ibv_wr_start(qpx);
    qpx->wr_id = 10;
    qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(qpx, htonl(11));
    ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)memory, 6);
    qpx->wr_id = 12;
    ibv_wr_send(qpx);
    ibv_wr_set_inline_data(qpx, memory, 6);
    CHECK(!ibv_wr_complete(qpx));
    int polled = 0;
    while (polled < 4) {
        if (ibv_start_poll(cq, &attr))
            continue;
        do {
            CHECK(cq->status == IBV_WC_SUCCESS && ibv_wc_read_qp_num(cq) == qp->qp_num);
            if (cq->wr_id == 9)
                CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV && ibv_wc_read_completion_ts(cq) == 77);
            if (ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM)
                CHECK(ibv_wc_read_imm_data(cq) == htonl(11));
            polled++;
        } while (!ibv_next_poll(cq));
        ibv_end_poll(cq);
    }
    CHECK(!strcmp(memory + 32, "built"));
    /* All or nothing. */
    ibv_wr_start(qpx);
    for (int at = 0; at < 3; at++) {
        ibv_wr_send(qpx);
        ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)memory, 6);
    }
    CHECK(ibv_wr_complete(qpx) == ENOMEM);
    ibv_wr_start(qpx);
    ibv_wr_send(qpx);
    ibv_wr_set_inline_data(qpx, memory, 17);
    CHECK(ibv_wr_complete(qpx) == EINVAL);
    ibv_wr_start(qpx);
    ibv_wr_send(qpx);
    ibv_wr_abort(qpx);
    CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) && !ibv_dereg_mr(mr));
}

static void *converse(void *unused)
{
    (void)unused;
    struct side a = make(), b = make();
    join(a.qp, b.qp);
    join(b.qp, a.qp);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(!post_receive(&b, round) && !post_send(&a, round, IBV_SEND_SIGNALED, 64));
        CHECK(one(b.cq).wr_id == (unsigned)round && one(a.cq).wr_id == (unsigned)round);
    }
    destroy(&a);
    destroy(&b);
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];
    for (int at = 0; at < THREADS; at++)
        CHECK(!pthread_create(&all[at], NULL, converse, NULL));
    for (int at = 0; at < THREADS; at++)
        CHECK(!pthread_join(all[at], NULL));
}

/* What the parent has opened is the parent's: a child is refused, whatever it calls, and opens its own. */
static void forks(struct side *a, struct side *b)
{
    int status;
    pid_t child = fork();
    if (!child) {
        struct ibv_wc wc;
        struct ibv_port_attr port;
        CHECK(!ibv_alloc_pd(context) && errno == ENODEV);
        CHECK(ibv_query_port(context, 1, &port) == ENODEV);
        CHECK(post_send(a, 1, 0, 8) == ENODEV && post_receive(a, 1) == ENODEV);
        CHECK(ibv_poll_cq(a->cq, 1, &wc) == -1 && errno == ENODEV);
        CHECK(ibv_req_notify_cq(a->cq, 0) == ENODEV && ibv_destroy_qp(a->qp) == ENODEV);
        devices();
        queries();
        CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(!post_receive(b, 5) && !post_send(a, 5, IBV_SEND_SIGNALED, 8));
    CHECK(one(a->cq).wr_id == 5 && one(b->cq).wr_id == 5);
}

int main(void)
{
    devices();
    queries();
    refusals();
    struct side a = make(), b = make();
    messages(&a, &b);
    lists(&a, &b);
    notifications(&a, &b);
    resets(&a, &b);
    attributes(&a);
    asynchronous(&a);
    extended();
    threads();
    forks(&a, &b);
    destroy(&a);
    destroy(&b);
    CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
    puts("ok");
    return 0;
}
