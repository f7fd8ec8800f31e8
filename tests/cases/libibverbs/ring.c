/* A ring allreduce as libraries of collectives have it: libibverbs is loaded when it is needed and asked for its functions
   by name and version; data goes by RDMA WRITE, the last with immediate data; completions are polled. Ranks find each other by
   files in the folder that is the argument. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 50000
#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s failed\n", #what); exit(1); } } while (0)

static void *library;
static void *named(const char *name) {
    void *found = dlvsym(library, name, "IBVERBS_1.1");
    if (!found) { fprintf(stderr, "no %s\n", name); exit(1); }
    return found;
}
#define CALL(result, name, ...) ((result (*)(__VA_ARGS__))named(name))

struct address { uint32_t qpn, lid, rkey; uint64_t va; };
static int rank, ranks;
static const char *folder;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *queue_pair(void) {
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 } };
    struct ibv_qp *qp = CALL(struct ibv_qp *, "ibv_create_qp", struct ibv_pd *, struct ibv_qp_init_attr *)(pd, &init);
    CHECK(qp);
    return qp;
}

static void connect_to(struct ibv_qp *qp, const struct address *peer) {
    int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int) = named("ibv_modify_qp");
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
        .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE };
    CHECK(!modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qpn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .dlid = peer->lid, .port_num = 1 } };
    CHECK(!modify(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
    CHECK(!modify(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
        IBV_QP_MAX_QP_RD_ATOMIC));
}

static void tell(const char *kind, const struct address *own) {
    char path[4096], made[sizeof path + 8];
    snprintf(path, sizeof path, "%s/%s-%d", folder, kind, rank);
    snprintf(made, sizeof made, "%s.new", path);
    FILE *file = fopen(made, "w");
    CHECK(file && fwrite(own, sizeof *own, 1, file) == 1 && !fclose(file) && !rename(made, path));
}

static struct address ask(const char *kind, int of) {
    char path[4096];
    struct address peer;
    snprintf(path, sizeof path, "%s/%s-%d", folder, kind, of);
    FILE *file;
    while (!(file = fopen(path, "r"))) usleep(1000);
    CHECK(fread(&peer, sizeof peer, 1, file) == 1);
    fclose(file);
    return peer;
}

/* Waits for a completion of each kind: what was sent has arrived, what is to come has come. */
static void await_both(void) {
    int sent = 0, received = 0;
    while (!sent || !received) {
        struct ibv_wc wc;
        int count = ibv_poll_cq(cq, 1, &wc);
        CHECK(count >= 0);
        if (!count) continue;
        if (wc.status != IBV_WC_SUCCESS) { fprintf(stderr, "status %d\n", wc.status); exit(1); }
        if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) received = 1; else sent = 1;
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    folder = argv[1];
    rank = atoi(getenv("IBEMU_RANK"));
    ranks = atoi(getenv("IBEMU_RANKS"));
    CHECK(library = dlopen("libibverbs.so", RTLD_NOW));
    int devices;
    struct ibv_device **list = CALL(struct ibv_device **, "ibv_get_device_list", int *)(&devices);
    CHECK(list && devices == 1);
    CHECK(context = CALL(struct ibv_context *, "ibv_open_device", struct ibv_device *)(list[0]));
    CHECK(pd = CALL(struct ibv_pd *, "ibv_alloc_pd", struct ibv_context *)(context));
    CHECK(cq = CALL(struct ibv_cq *, "ibv_create_cq", struct ibv_context *, int, void *, struct ibv_comp_channel *, int)(
        context, 128, NULL, NULL, 0));
    struct ibv_port_attr port;
    CHECK(!CALL(int, "ibv_query_port", struct ibv_context *, uint8_t, struct ibv_port_attr *)(context, 1, &port));
    /* The sum so far, what comes from the rank before, and what is passed on. */
    uint64_t *sum = calloc(WORDS, 8), *come = calloc(WORDS, 8), *pass = calloc(WORDS, 8);
    struct ibv_mr *(*reg)(struct ibv_pd *, void *, size_t, int) = named("ibv_reg_mr");
    struct ibv_mr *in = reg(pd, come, WORDS * 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_mr *out = reg(pd, pass, WORDS * 8, IBV_ACCESS_LOCAL_WRITE);
    CHECK(in && out);
    struct ibv_qp *before = queue_pair(), *next = queue_pair();
    struct address here = { before->qp_num, port.lid, in->rkey, (uintptr_t)come };
    tell("before", &here);
    here.qpn = next->qp_num;
    tell("next", &here);
    struct address to = ask("before", (rank + 1) % ranks), from = ask("next", (rank + ranks - 1) % ranks);
    connect_to(next, &to);
    connect_to(before, &from);
    for (int i = 0; i < WORDS; i++) sum[i] = pass[i] = (uint64_t)i * (rank + 1);
    tell("ready", &here);
    ask("ready", (rank + 1) % ranks);
    for (int step = 1; step < ranks; step++) {
        struct ibv_recv_wr receive = { .wr_id = 1 }, *bad_receive;
        CHECK(!ibv_post_recv(before, &receive, &bad_receive));
        struct ibv_sge sge = { (uintptr_t)pass, WORDS * 8, out->lkey };
        struct ibv_send_wr send = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
            .send_flags = IBV_SEND_SIGNALED, .imm_data = step, .wr.rdma = { to.va, to.rkey } }, *bad_send;
        CHECK(!ibv_post_send(next, &send, &bad_send));
        await_both();
        for (int i = 0; i < WORDS; i++) sum[i] += come[i];
        memcpy(pass, come, WORDS * 8);
        /* Nobody writes into what has not been read: all have come so far. */
        char kind[32];
        snprintf(kind, sizeof kind, "step%d", step);
        tell(kind, &here);
        ask(kind, (rank + 1) % ranks);
    }
    uint64_t wrong = 0, all = (uint64_t)ranks * (ranks + 1) / 2;
    for (int i = 0; i < WORDS; i++) wrong += sum[i] != i * all;
    printf("rank %d: %lu wrong\n", rank, (unsigned long)wrong);
    return wrong != 0;
}
